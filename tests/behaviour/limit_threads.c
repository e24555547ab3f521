/* Promise: where no thread can be started any more (EAGAIN), malloc and free go on; and the last
   thread that a limit allows is the program's. */
#include "behaviour.h"

static void *starts(void *unused) { return unused; }

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static void *waits(void *unused) {
    pthread_mutex_lock(&held);
    pthread_mutex_unlock(&held);
    return unused;
}

/* With a limit of two, the program may have one thread beside the first, again and again. */
static void takes_the_last(void) {
    /* A user of its own, because the limit counts what all processes of a user have. */
    long user = 50000 + getpid() % 10000;
    NEEDS(geteuid() == 0 && syscall(SYS_setresuid, user, user, user) == 0);
    struct rlimit limit = {2, 2};
    MUST(setrlimit(RLIMIT_NPROC, &limit) == 0);
    for (int i = 0; i < 50; i++) {
        pthread_t last, more;
        pthread_mutex_lock(&held);
        /* The kernel counts a thread until it has cleaned up behind it. */
        int error = EAGAIN;
        for (int look = 0; look < 1000 && (error = pthread_create(&last, NULL, waits, NULL)) == EAGAIN; look++) {
            MUST(thread_count() <= 2);
            sleep_ms(1);
        }
        MUST(error == 0);
        MUST(pthread_create(&more, NULL, starts, NULL) == EAGAIN);
        work(i, 100);
        pthread_mutex_unlock(&held);
        MUST(pthread_join(last, NULL) == 0);
    }
}

int main(void) {
    pid_t first = fork();
    if (first == 0) {
        takes_the_last();
        _exit(7);
    }
    int code;
    MUST(waitpid(first, &code, 0) == first && WIFEXITED(code));
    MUST(WEXITSTATUS(code) == 7 || WEXITSTATUS(code) == SKIPPED);
    pid_t pid = fork();
    if (pid == 0) {
        NEEDS(geteuid() != 0 || syscall(SYS_setresuid, 47110, 47110, 47110) == 0);
        struct rlimit limit = {1, 1};
        MUST(setrlimit(RLIMIT_NPROC, &limit) == 0);
        pthread_t t;
        for (int i = 0; i < 50; i++) {
            MUST(pthread_create(&t, NULL, starts, NULL) == EAGAIN);
            work(i, 100);
            free(malloc(20 << 20));
        }
        limit.rlim_cur = 1;
        _exit(7);
    }
    int status;
    MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    MUST(WEXITSTATUS(status) == 7 || WEXITSTATUS(status) == SKIPPED);
    return WEXITSTATUS(status) == 7 ? 0 : SKIPPED;
}
