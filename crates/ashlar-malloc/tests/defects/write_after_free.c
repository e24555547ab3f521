/* An object is written after its free, and the next ones are allocated. */
#include "defect.h"

int main(void) {
    long *volatile a = malloc(64);
    free(a);
    a[1] = 0x4141414141414141;
    for (int i = 0; i < 100; i++) if (malloc(64) == NULL) return 1;
    return 0;
}
