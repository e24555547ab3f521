/* Promise: signals that the program blocks everywhere stay pending for its sigwait, and SIGTERM
   ends it: no other thread takes them. */
#include "behaviour.h"

int main(void) {
    sigset_t blocked;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGTERM);
    pthread_sigmask(SIG_SETMASK, &blocked, NULL);
    threaded_work(3);
    free(malloc(16 << 20));
    sleep_ms(50);
    for (int i = 0; i < 50; i++) {
        int number = 0;
        MUST(kill(getpid(), i % 2 ? SIGUSR1 : SIGCHLD) == 0);
        free(malloc(4 << 20));
        MUST(sigwait(&blocked, &number) == 0 && number == (i % 2 ? SIGUSR1 : SIGCHLD));
    }
    pid_t pid = fork();
    if (pid == 0) {
        crowd_begins(2);
        for (;;) work(1, 1000);
    }
    sleep_ms(100);
    int status;
    MUST(kill(pid, SIGTERM) == 0 && waitpid(pid, &status, 0) == pid);
    MUST(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    return 0;
}
