/* Promise: more than PTRDIFF_MAX is ENOMEM from every function, and realloc keeps the old block.
   (glibc's tst-malloc-too-large.) */
#include "behaviour.h"

#define IS_TOO_LARGE(call)                                                                         \
    do {                                                                                           \
        errno = 0;                                                                                 \
        void *volatile is_ = (call);                                                               \
        MUST(is_ == NULL && errno == ENOMEM);                                                      \
    } while (0)
int main(void) {
    for (int i = 0; i < 20; i++) {
        volatile size_t size = i < 10 ? SIZE_MAX - i * 4096 : (size_t)PTRDIFF_MAX + 1 + (i - 10) * 4096;
        char *p = malloc(100);
        strcpy(p, "kept");
        IS_TOO_LARGE(malloc(size));
        IS_TOO_LARGE(realloc(p, size));
        IS_TOO_LARGE(realloc(NULL, size));
        IS_TOO_LARGE(calloc(1, size));
        IS_TOO_LARGE(calloc(size, 1));
        IS_TOO_LARGE(calloc(size, size));
        IS_TOO_LARGE(reallocarray(p, size, 1));
        IS_TOO_LARGE(reallocarray(p, size / 2 + 1, 4));
        IS_TOO_LARGE(aligned_alloc(64, size));
        IS_TOO_LARGE(memalign(4096, size));
        IS_TOO_LARGE(valloc(size));
        IS_TOO_LARGE(pvalloc(size));
        void *q = &q;
        MUST(posix_memalign(&q, 64, size) == ENOMEM && q == &q);
        MUST(strcmp(p, "kept") == 0);
        free(p);
        work(i, 20);
    }
    return 0;
}
