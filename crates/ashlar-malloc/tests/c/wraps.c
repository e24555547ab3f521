/* Defines some of malloc, calloc, realloc and free by glibc's own names for them, as profilers do:
   those that -DOWN_MALLOC, -DOWN_CALLOC, -DOWN_REALLOC and -DOWN_FREE choose. A wrapper that is
   entered from inside itself shows that the library called a name which the program replaced. */
#include "must.h"
#include <malloc.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
extern void *__libc_memalign(size_t, size_t);
extern void *__libc_valloc(size_t);
extern void *__libc_pvalloc(size_t);

static __thread int depth;
static unsigned long calls[4];
#define WRAPPED(number, type, call) \
    do {                            \
        MUST(depth == 0);           \
        depth++;                    \
        calls[number]++;            \
        type result = call;         \
        depth--;                    \
        return result;              \
    } while (0)

#ifdef OWN_MALLOC
void *malloc(size_t n) { WRAPPED(0, void *, __libc_malloc(n)); }
#endif
#ifdef OWN_CALLOC
void *calloc(size_t count, size_t n) { WRAPPED(1, void *, __libc_calloc(count, n)); }
#endif
#ifdef OWN_REALLOC
void *realloc(void *p, size_t n) { WRAPPED(2, void *, __libc_realloc(p, n)); }
#endif
#ifdef OWN_FREE
void free(void *p) {
    MUST(depth == 0);
    depth++;
    calls[3]++;
    __libc_free(p);
    depth--;
}
#endif

/* A wrapper ran as often as the program called its name. */
#define CALLED(own, number, times) MUST(calls[number] == (own ? (times) : 0))
#ifdef OWN_MALLOC
#define MALLOC 1
#else
#define MALLOC 0
#endif
#ifdef OWN_CALLOC
#define CALLOC 1
#else
#define CALLOC 0
#endif
#ifdef OWN_REALLOC
#define REALLOC 1
#else
#define REALLOC 0
#endif
#ifdef OWN_FREE
#define FREE 1
#else
#define FREE 0
#endif

int main(void) {
    static const size_t sizes[] = {0, 1, 100, 5000, 100000, (size_t)40 << 20};
    for (int i = 0; i < 6; i++) {
        size_t n = sizes[i];
        void *p, *all[12];
        memset(calls, 0, sizeof calls);
        all[0] = malloc(n);
        all[1] = calloc(3, n);
        all[2] = realloc(NULL, n);
        all[3] = realloc(malloc(n + 10), n * 2 + 1);
        CALLED(MALLOC, 0, 2);
        CALLED(CALLOC, 1, 1);
        CALLED(REALLOC, 2, 2);
        all[4] = reallocarray(NULL, 3, n);
        all[5] = aligned_alloc(64, n);
        all[6] = memalign(4096, n);
        MUST(posix_memalign(&p, 128, n) == 0);
        all[7] = p;
        all[8] = valloc(n);
        all[9] = pvalloc(n);
        all[10] = __libc_memalign(256, n);
        all[11] = __libc_valloc(n);
        MUST(calls[0] == (MALLOC ? 2 : 0));
        for (int k = 0; k < 12; k++) {
            MUST(all[k] != NULL && malloc_usable_size(all[k]) >= n);
            if (n) ((char *)all[k])[0] = ((char *)all[k])[n - 1] = k;
        }
        CALLED(FREE, 3, 0);
        for (int k = 0; k < 12; k++) free(all[k]);
        CALLED(FREE, 3, 12);
        __libc_free(__libc_malloc(n));
        __libc_free(__libc_calloc(n, 2));
        __libc_free(__libc_realloc(__libc_pvalloc(n), n + 1));
        CALLED(FREE, 3, 12);
    }
    threaded_work(4);
    puts("well");
    return 0;
}
