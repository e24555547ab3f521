/* Promise: a debugger may step through malloc and free instruction by instruction. */
#include "behaviour.h"
#include <sys/ptrace.h>

int main(void) {
    work(1, 200);
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) _exit(SKIPPED);
        raise(SIGSTOP);
        for (int i = 0; i < 20; i++) free(malloc(50 + i * 40));
        _exit(7);
    }
    int status, steps = 0;
    MUST(waitpid(pid, &status, 0) == pid);
    while (WIFSTOPPED(status)) {
        MUST(++steps < 400000);
        MUST(ptrace(PTRACE_SINGLESTEP, pid, 0, WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status)) == 0);
        MUST(waitpid(pid, &status, 0) == pid);
    }
    NEEDS(!WIFEXITED(status) || WEXITSTATUS(status) != SKIPPED);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    return 0;
}
