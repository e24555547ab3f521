/* Promise: malloc, calloc, realloc and free are no cancellation points, also under contention. */
#include "behaviour.h"

static volatile int ready, reached;
static void *runs(void *seed) {
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    int old;
    while (ready < 100) sched_yield();
    for (int i = 0; i < 5; i++) {
        work((unsigned long)seed + i, 500);
        free(malloc(3 << 20));
        if ((unsigned long)seed == 1) malloc_trim(0);
    }
    __atomic_add_fetch(&reached, 1, __ATOMIC_SEQ_CST);
    pthread_testcancel();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    return NULL;
}
int main(void) {
    pthread_t t[6];
    for (long i = 0; i < 6; i++) MUST(pthread_create(&t[i], NULL, runs, (void *)(i + 1)) == 0);
    while (ready < 6) sched_yield();
    for (int i = 0; i < 6; i++) MUST(pthread_cancel(t[i]) == 0);
    ready = 100;
    for (int i = 0; i < 6; i++) {
        void *result;
        MUST(pthread_join(t[i], &result) == 0 && result == PTHREAD_CANCELED);
    }
    MUST(reached == 6);
    return 0;
}
