/* 1000 threads on the smallest stacks, at once and one after the other, and threads that move
   between CPUs. */
#include "must.h"
#include <limits.h>

static void *small(void *seed) {
    work((unsigned long)seed, 200);
    return malloc(100);
}
static volatile int stop;
static void *moves(void *unused) {
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    for (int i = 0; !stop; i++) {
        int cpu = i % CPU_SETSIZE;
        if (!CPU_ISSET(cpu, &all)) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        work(i, 50);
    }
    return unused;
}

int main(void) {
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    size_t least = sysconf(_SC_THREAD_STACK_MIN);
    MUST(pthread_attr_setstacksize(&attr, least > 16384 ? least : 16384) == 0);
    pthread_t mover[2], t[1000];
    for (int i = 0; i < 2; i++) MUST(pthread_create(&mover[i], NULL, moves, NULL) == 0);
    for (int round = 0; round < 2; round++) {
        int at_once = round == 0 ? 1000 : 10;
        for (int from = 0; from < 1000; from += at_once) {
            for (long i = from; i < from + at_once; i++) MUST(pthread_create(&t[i], &attr, small, (void *)i) == 0);
            for (int i = from; i < from + at_once; i++) {
                void *left;
                MUST(pthread_join(t[i], &left) == 0 && left != NULL);
                free(left);
            }
        }
    }
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(mover[i], NULL);
    puts("well");
    return 0;
}
