/* Promise: malloc, calloc, realloc, free and malloc_trim are no cancellation points, also under
   contention. */
#include "behaviour.h"

enum { THREADS = 12 };
static volatile int ready, go, reached;
static int trims;
static void *runs(void *seed) {
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    while (!go) sched_yield();
    for (int i = 0; i < 3; i++) {
        work((unsigned long)seed + i, 100);
        for (int k = 0; k < 700; k++) {
            char *p = malloc(29000 + k % 7 * 20000);
            p[0] = p[28000] = 1;
            free(p);
        }
        if (trims && (unsigned long)seed <= 2) malloc_trim(0);
    }
    __atomic_add_fetch(&reached, 1, __ATOMIC_SEQ_CST);
    for (;;) pthread_testcancel();
    return NULL;
}
int main(void) {
    pthread_t t[THREADS];
    /* Where a library has no malloc_trim, this would be the C library's. */
    Dl_info one, other;
    trims = dladdr((void *)malloc, &one) && dladdr((void *)malloc_trim, &other) &&
            one.dli_fbase == other.dli_fbase;
    for (int round = 0; round < 4; round++) {
        ready = go = reached = 0;
        for (long i = 0; i < THREADS; i++)
            MUST(pthread_create(&t[i], NULL, runs, (void *)(i + 1)) == 0);
        while (ready < THREADS) sched_yield();
        for (int i = 0; i < THREADS; i++) MUST(pthread_cancel(t[i]) == 0);
        go = 1;
        for (int i = 0; i < THREADS; i++) {
            void *result;
            MUST(pthread_join(t[i], &result) == 0 && result == PTHREAD_CANCELED);
        }
        MUST(reached == THREADS);
    }
    return 0;
}
