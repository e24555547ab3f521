/* Promise: malloc and free leave the signal mask and all dispositions as they are. */
#include "behaviour.h"

int main(void) {
    sigset_t some, before, after;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    sigprocmask(SIG_SETMASK, &some, &before);
    work(1, 3000);
    free(malloc(40 << 20));
    malloc_trim(0);
    threaded_work(3);
    pid_t pid = fork();
    if (pid == 0) {
        work(2, 100);
        sigprocmask(SIG_SETMASK, NULL, &after);
        _exit(memcmp(&some, &after, 8) == 0 ? 7 : 1);
    }
    MUST(child_ended(pid, 7));
    sigprocmask(SIG_SETMASK, NULL, &after);
    MUST(memcmp(&some, &after, 8) == 0);
    for (int i = 1; i < 32; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) == 0) MUST(action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN);
    }
    return 0;
}
