/* Promise: fork in a signal handler that interrupts malloc, free and fork of one thread.
   (glibc's tst-mallocfork2.) */
#include "behaviour.h"

static volatile sig_atomic_t handled;
static void forks(int number) {
    (void)number;
    int code = errno;
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    if (pid > 0) waitpid(pid, NULL, 0);
    handled++;
    errno = code;
}
int main(void) {
    pid_t program = getpid();
    struct sigaction action = {.sa_handler = forks, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGUSR1, &action, NULL) == 0);
    pid_t sender = fork();
    if (sender == 0) {
        signal(SIGUSR1, SIG_IGN);
        for (int i = 0; i < 400 && kill(program, SIGUSR1) == 0; i++) usleep(1000);
        _exit(7);
    }
    void *kept[40] = {NULL};
    for (int i = 0; waitpid(sender, NULL, WNOHANG) == 0; i++) {
        free(kept[i % 40]);
        kept[i % 40] = malloc(i % 7 == 0 ? 300000 : 20 + i % 1000);
        if (i % 1000 == 0) {
            pid_t pid = fork();
            if (pid == 0) _exit(7);
            int status;
            while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
        }
    }
    MUST(handled > 5);
    return 0;
}
