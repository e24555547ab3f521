/* Fork in other ways than the plain one: from a thread, twice, with a child that starts threads, by
   the bare system call. */
#include "must.h"
#include <spawn.h>

static void child(int depth) {
    work(depth, 2000);
    threaded_work(4);
    if (depth > 0) {
        pid_t pid = fork();
        if (pid == 0) child(depth - 1);
        MUST(pid > 0 && child_ended(pid, 7));
    }
    _exit(7);
}
static volatile int stop;
static void *background(void *seed) {
    while (!stop) work((unsigned long)seed, 1000);
    return NULL;
}
static void *forks(void *unused) {
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0) child(2);
        MUST(pid > 0 && child_ended(pid, 7));
    }
    return unused;
}

int main(void) {
    /* Without fork handlers, while there is one thread: what libraries do that must not run
       handlers. */
    work(1, 5000);
    for (int i = 0; i < 50; i++) {
        pid_t pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) {
            work(i, 2000);
            _exit(7);
        }
        MUST(pid > 0 && child_ended(pid, 7));
    }
    pthread_t t[4], f[2];
    for (long i = 0; i < 4; i++) MUST(pthread_create(&t[i], NULL, background, (void *)(i + 1)) == 0);
    for (int i = 0; i < 2; i++) MUST(pthread_create(&f[i], NULL, forks, NULL) == 0);
    for (int i = 0; i < 2; i++) pthread_join(f[i], NULL);
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    puts("well");
    return 0;
}
