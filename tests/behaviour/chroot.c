/* Promise: in an empty root, without /proc, /sys and /dev, malloc and threads work. */
#include "behaviour.h"

int main(void) {
    char name[] = "/tmp/behaviour-......";
    memset(strchr(name, '.'), 'X', 6);
    MUST(mkdtemp(name) != NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() != 0 && unshare(CLONE_NEWUSER) != 0) _exit(SKIPPED);
        if (chroot(name) != 0 || chdir("/") != 0) _exit(SKIPPED);
        work(1, 1000);
        free(malloc(40 << 20));
        threaded_work(4);
        malloc_trim(0);
        _exit(7);
    }
    int status;
    MUST(waitpid(pid, &status, 0) == pid);
    rmdir(name);
    NEEDS(WIFEXITED(status) && WEXITSTATUS(status) != SKIPPED);
    MUST(WEXITSTATUS(status) == 7);
    return 0;
}
