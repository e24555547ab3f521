/* Promise: blocks that one thread allocates and another frees are used again. */
#include "behaviour.h"

enum { SLOTS = 1024, BLOCKS = 400000 };
static void *volatile slots[SLOTS];
static void *frees(void *unused) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        void *p;
        while ((p = __atomic_exchange_n(&slots[i % SLOTS], NULL, __ATOMIC_ACQ_REL)) == NULL) sched_yield();
        MUST(*(unsigned *)p == i);
        free(p);
    }
    return unused;
}
int main(void) {
    pthread_t t;
    MUST(pthread_create(&t, NULL, frees, NULL) == 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        unsigned *p = malloc(i % 100 == 0 ? 5000 : 700);
        MUST(p != NULL);
        *p = i;
        while (__atomic_load_n(&slots[i % SLOTS], __ATOMIC_ACQUIRE) != NULL) sched_yield();
        __atomic_store_n(&slots[i % SLOTS], p, __ATOMIC_RELEASE);
    }
    pthread_join(t, NULL);
    MUST(resident_kib() < 64 << 10); /* all of them together are 300 MiB */
    return 0;
}
