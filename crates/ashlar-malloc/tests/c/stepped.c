/* The parent single-steps a child through malloc and free, as a debugger's software watchpoint
   does. Every step aborts a critical section, so only a way that does without lets the child end.
   Exit code 77: no ptrace here. */
#include "must.h"
#include <sys/ptrace.h>

int main(void) {
    void *warm = malloc(64);
    free(warm);
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) _exit(77);
        raise(SIGSTOP);
        for (int i = 0; i < 30; i++) {
            unsigned long *p = malloc(64), *q = calloc(1, 200);
            p[0] = q[0] = i;
            p = realloc(p, 1000);
            MUST(p[0] == (unsigned long)i);
            free(q);
            free(p);
        }
        _exit(7);
    }
    int status;
    MUST(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    long steps = 0;
    while (WIFSTOPPED(status)) {
        MUST(++steps < 3000000);
        if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) != 0) return 77;
        MUST(waitpid(pid, &status, 0) == pid);
    }
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    puts("well");
    return 0;
}
