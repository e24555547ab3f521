/* Promise: posix_memalign, aligned_alloc, memalign, valloc and pvalloc follow their manual page.
   (glibc's tst-posix_memalign, tst-aligned-alloc, tst-memalign, tst-valloc, tst-pvalloc.) */
#include "behaviour.h"

int main(void) {
    void *p = &p;
    errno = 5;
    MUST(posix_memalign(&p, 3, 10) == EINVAL && p == &p && errno == 5);
    MUST(posix_memalign(&p, 4, 10) == EINVAL && posix_memalign(&p, 0, 10) == EINVAL);
    MUST(posix_memalign(&p, 24, 10) == EINVAL);
    MUST(posix_memalign(&p, 8, SIZE_MAX - 100) == ENOMEM && p == &p);
    MUST(posix_memalign(&p, 1ul << 30, PTRDIFF_MAX) == ENOMEM && p == &p);
    MUST(posix_memalign(&p, 64, 0) == 0);
    free(p);
    for (size_t align = 1; align <= 4096; align *= 2) {
        MUST((p = hide(aligned_alloc(align, 100))) != NULL && (uintptr_t)p % align == 0);
        free(p);
        MUST((p = hide(memalign(align, 100))) != NULL && (uintptr_t)p % align == 0);
        free(p);
        /* memalign takes the next power of two. */
        if (align > 2) {
            MUST((p = memalign(align - 1, 100)) != NULL && (uintptr_t)p % align == 0);
            free(p);
        }
    }
    errno = 0;
    MUST(hide(aligned_alloc(4096, SIZE_MAX - 4096)) == NULL && errno == ENOMEM);
    errno = 0;
    MUST(hide(memalign(4096, PTRDIFF_MAX)) == NULL && errno == ENOMEM);
    errno = 0;
    MUST(hide(memalign(SIZE_MAX / 2 + 2, 10)) == NULL && errno == EINVAL);
    MUST((p = valloc(10)) != NULL && (uintptr_t)p % 4096 == 0);
    free(p);
    MUST((p = valloc(0)) != NULL);
    free(p);
    MUST((p = pvalloc(4097)) != NULL && (uintptr_t)p % 4096 == 0 && malloc_usable_size(p) >= 8192);
    memset(p, 1, 8192);
    free(p);
    MUST((p = pvalloc(0)) != NULL);
    free(p);
    errno = 0;
    MUST(hide(valloc(SIZE_MAX)) == NULL && errno == ENOMEM);
    errno = 0;
    MUST(hide(pvalloc(SIZE_MAX - 10)) == NULL && errno == ENOMEM);
    return 0;
}
