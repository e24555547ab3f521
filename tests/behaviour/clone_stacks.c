/* Promise: children of clone(3) on a stack from malloc: with memory of their own they allocate,
   with the parent's (CLONE_VM and CLONE_VFORK) they exec. */
#include "behaviour.h"

static int allocates(void *seed) {
    work((unsigned long)seed, 300);
    return 7;
}
static int executes(void *unused) {
    (void)unused;
    execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
    return 9;
}
int main(void) {
    unsetenv("LD_PRELOAD");
    size_t size = 256 << 10;
    for (long i = 0; i < 30; i++) {
        char *stack = malloc(size);
        pid_t pid = clone(allocates, stack + size, SIGCHLD, (void *)i);
        MUST(pid > 0 && child_ended(pid, 7));
        pid = clone(executes, stack + size, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        MUST(pid > 0 && child_ended(pid, 3));
        free(stack);
        work(i, 100);
    }
    return 0;
}
