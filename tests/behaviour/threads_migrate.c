/* Promise: threads that move from CPU to CPU all the time get blocks of their own. */
#include "behaviour.h"

static volatile int stop;
static cpu_set_t allowed;
static pthread_t moved[4];
static void *moves(void *unused) {
    for (int i = 0; !stop; i++) {
        int cpu = i % CPU_SETSIZE;
        if (!CPU_ISSET(cpu, &allowed)) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(moved[i / CPU_SETSIZE % 4], sizeof one, &one);
    }
    return unused;
}
static void *runs(void *seed) {
    for (int i = 0; i < 40; i++) work((unsigned long)seed * 100 + i, 1000);
    return NULL;
}
int main(void) {
    MUST(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    pthread_t t;
    for (long i = 0; i < 4; i++) MUST(pthread_create(&moved[i], NULL, runs, (void *)i) == 0);
    MUST(pthread_create(&t, NULL, moves, NULL) == 0);
    for (int i = 0; i < 4; i++) pthread_join(moved[i], NULL);
    stop = 1;
    pthread_join(t, NULL);
    return 0;
}
