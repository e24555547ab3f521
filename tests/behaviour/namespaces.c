/* Promise: a program without threads may unshare its user namespace after free(malloc(8 MiB)), as
   bubblewrap and browsers do, and then the others; its children allocate there. */
#include "behaviour.h"

int main(void) {
    pid_t pid = fork();
    if (pid == 0) _exit(unshare(CLONE_NEWUSER) == 0 ? 7 : 8);
    NEEDS(child_ended(pid, 7)); /* before anything was allocated */
    free(malloc(8 << 20));
    work(1, 2000);
    MUST(unshare(CLONE_NEWUSER) == 0);
    MUST(unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_FS | CLONE_FILES) == 0);
    pid = fork();
    if (pid == 0) {
        MUST(getpid() == 1);
        free(malloc(8 << 20));
        threaded_work(3);
        _exit(7);
    }
    MUST(child_ended(pid, 7));
    return 0;
}
