/* Promise: a program without threads may join the user namespace of another (setns), as nsenter and
   container runtimes do, after it allocated and freed. */
#include "behaviour.h"

int main(void) {
    int ends[2], release[2];
    char byte, path[64];
    MUST(pipe(ends) == 0 && pipe(release) == 0);
    pid_t other = fork();
    if (other == 0) {
        int made = unshare(CLONE_NEWUSER) == 0;
        MUST(write(ends[1], made ? "y" : "n", 1) == 1);
        close(release[1]);
        MUST(read(release[0], &byte, 1) == 0);
        _exit(0);
    }
    close(release[0]);
    MUST(read(ends[0], &byte, 1) == 1);
    snprintf(path, sizeof path, "/proc/%d/ns/user", other);
    int fd = open(path, O_RDONLY);
    int here = byte == 'y' && fd >= 0;
    if (here) {
        free(malloc(8 << 20));
        work(1, 2000);
        pid_t pid = fork();
        if (pid == 0) {
            free(malloc(8 << 20));
            if (setns(fd, CLONE_NEWUSER) != 0) _exit(errno);
            threaded_work(2);
            _exit(100);
        }
        int status;
        MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
        here = WEXITSTATUS(status) != EPERM;
        MUST(!here || WEXITSTATUS(status) == 100);
        MUST(!here || setns(fd, CLONE_NEWUSER) == 0);
    }
    close(release[1]);
    waitpid(other, NULL, 0);
    errno = EPERM;
    NEEDS(here);
    return 0;
}
