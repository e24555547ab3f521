/* Promise: while fork waits for a stream that another thread flushes for a second, threads allocate
   what they like, and nothing is lost. */
#include "slow_stream.h"

static void *allocates(void *kind) {
    enum { COUNT = 1000 };
    static char *all[2][COUNT];
    char **p = all[(long)kind];
    size_t size = (long)kind ? 200000 : 5000;
    while (!flushing) sched_yield();
    sleep_ms(50);
    for (int i = 0; i < COUNT; i++) {
        MUST((p[i] = malloc(size)) != NULL);
        p[i][0] = p[i][size - 1] = (char)i;
    }
    for (int i = 0; i < COUNT; i++) MUST(p[i][0] == (char)i && p[i][size - 1] == (char)i);
    for (int i = 0; i < COUNT; i++) free(p[i]);
    return NULL;
}
int main(void) {
    pthread_t t[3];
    MUST(pthread_create(&t[0], NULL, flushes, NULL) == 0);
    for (long i = 0; i < 2; i++) MUST(pthread_create(&t[1 + i], NULL, allocates, (void *)i) == 0);
    while (!flushing) sched_yield();
    pid_t pid = fork();
    if (pid == 0) {
        work(1, 100);
        _exit(7);
    }
    MUST(pid > 0 && child_ended(pid, 7));
    for (int i = 0; i < 3; i++) MUST(pthread_join(t[i], NULL) == 0);
    threaded_work(2);
    return 0;
}
