/* A pointer into a mapping is freed. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(100 << 20);
    tell(a + 4096);
    tell(a);
    free(a + 4096);
    return 0;
}
