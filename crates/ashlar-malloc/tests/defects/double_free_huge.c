/* A mapping is freed twice. */
#include "defect.h"

int main(void) {
    void *volatile a = malloc(100 << 20);
    tell(a);
    free(a);
    free(a);
    return 0;
}
