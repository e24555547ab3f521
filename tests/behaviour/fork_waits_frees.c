/* Promise: what threads free while fork waits for a stream is free afterwards, and they do not wait
   for the fork. The thread that allocates stays on its CPU: each node has memory of its own, so on
   the CPU of another node the same blocks would be new memory. The others run anywhere. */
#include "slow_stream.h"

enum { COUNT = 4000, BYTES = 20000 };
static char *blocks[COUNT];
static volatile int freed;
static cpu_set_t anywhere;

static void all_are_freed(void) { MUST(freed); }
static void *frees(void *unused) {
    MUST(sched_setaffinity(0, sizeof anywhere, &anywhere) == 0);
    while (!flushing) sched_yield();
    sleep_ms(50);
    for (int i = 0; i < COUNT; i++) free(blocks[i]);
    freed = 1;
    return unused;
}
int main(void) {
    pthread_t t[2];
    cpu_set_t here;
    MUST(sched_getaffinity(0, sizeof anywhere, &anywhere) == 0);
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    MUST(sched_setaffinity(0, sizeof here, &here) == 0);
    slow_stream_ms = 2500;
    slow_stream_check = all_are_freed;
    long before = resident_kib();
    for (int i = 0; i < COUNT; i++) MUST((blocks[i] = memset(malloc(BYTES), 1, BYTES)) != NULL);
    MUST(pthread_create(&t[0], NULL, flushes, NULL) == 0);
    MUST(pthread_create(&t[1], NULL, frees, NULL) == 0);
    while (!flushing) sched_yield();
    pid_t pid = fork();
    if (pid == 0) _exit(7);
    MUST(pid > 0 && child_ended(pid, 7));
    for (int i = 0; i < 2; i++) MUST(pthread_join(t[i], NULL) == 0);
    /* The same blocks again: no more memory. */
    for (int i = 0; i < COUNT; i++) MUST((blocks[i] = memset(malloc(BYTES), 1, BYTES)) != NULL);
    MUST(resident_kib() - before < COUNT * (BYTES / 1024) * 6 / 5);
    return 0;
}
