/* Promise: malloc and free of what was just used make no system call: they work in seccomp's strict
   mode, where only read, write and exit are left. */
#include "behaviour.h"
#include <linux/seccomp.h>

int main(void) {
    void *volatile p[20];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 20; i++) p[i] = malloc(30 + i * 20);
        for (int i = 0; i < 20; i++) free(p[i]);
    }
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 20; i++) p[i] = malloc(30 + i * 20);
        for (int i = 0; i < 20; i++) free(p[i]);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) _exit(SKIPPED);
        for (int round = 0; round < 1000; round++) {
            for (int i = 0; i < 20; i++) p[i] = malloc(30 + i * 20);
            for (int i = 0; i < 20; i++) free(p[i]);
        }
        syscall(SYS_exit, 7);
    }
    int status;
    MUST(waitpid(pid, &status, 0) == pid);
    NEEDS(!WIFEXITED(status) || WEXITSTATUS(status) != SKIPPED);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    return 0;
}
