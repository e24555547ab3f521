/* Promise: a fork handler may fork itself. */
#include "behaviour.h"

static __thread int inside;
static void forks(void) {
    if (inside) return;
    inside = 1;
    void *p = malloc(1000);
    pid_t pid = fork();
    if (pid == 0) {
        free(p);
        work(9, 50);
        _exit(5);
    }
    MUST(pid > 0 && child_ended(pid, 5));
    free(p);
    inside = 0;
}
int main(void) {
    for (int threads = 0; threads < 4; threads += 3) {
        if (threads == 0) MUST(pthread_atfork(forks, forks, forks) == 0);
        crowd_begins(threads);
        for (int i = 0; i < 10; i++) {
            pid_t pid = fork();
            if (pid == 0) {
                work(i, 100);
                _exit(7);
            }
            MUST(pid > 0 && child_ended(pid, 7));
        }
        crowd_ends();
    }
    return 0;
}
