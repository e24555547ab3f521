/* Promise: where no thread can be started any more (EAGAIN), malloc and free go on. */
#include "behaviour.h"

static void *starts(void *unused) { return unused; }
int main(void) {
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
