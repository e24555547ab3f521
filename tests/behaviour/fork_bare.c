/* Promise: a child of the bare clone call of a program with one thread allocates. */
#include "behaviour.h"

int main(void) {
    work(1, 2000);
    for (int i = 0; i < 50; i++) {
        pid_t pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0) {
            work(i, 500);
            _exit(7);
        }
        MUST(pid > 0 && child_ended(pid, 7));
    }
    return 0;
}
