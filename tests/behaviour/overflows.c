/* Promise: a product that overflows is ENOMEM from calloc and reallocarray; the old block stays.
   (glibc's tst-reallocarray.) */
#include "behaviour.h"

int main(void) {
    volatile size_t half = (size_t)1 << 32;
    errno = 0;
    MUST(hide(calloc(half, half)) == NULL && errno == ENOMEM);
    errno = 0;
    MUST(hide(calloc(half + 1, half)) == NULL && errno == ENOMEM);
    char *p = reallocarray(NULL, 10, 20);
    MUST(p != NULL && malloc_usable_size(p) >= 200);
    memset(p, 'r', 200);
    for (int i = 0; i < 4; i++) {
        errno = 0;
        MUST(reallocarray(p, half + i, half) == NULL && errno == ENOMEM);
        errno = 0;
        MUST(reallocarray(p, SIZE_MAX / 8 + 2, 8 + i) == NULL && errno == ENOMEM);
    }
    for (int i = 0; i < 200; i++) MUST(p[i] == 'r');
    MUST((p = reallocarray(p, 5000, 20)) != NULL);
    for (int i = 0; i < 200; i++) MUST(p[i] == 'r');
    free(p);
    return 0;
}
