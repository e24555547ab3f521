/* Promise: a child of vfork that allocates and frees, as execvp and shells do, harms nothing. */
#include "behaviour.h"

static __attribute__((noinline)) pid_t spawn(void *volatile *left) {
    pid_t pid = vfork();
    if (pid == 0) {
        unsigned long *p[64];
        for (unsigned long round = 0; round < 10; round++) {
            for (unsigned long i = 0; i < 64; i++) {
                p[i] = malloc(16 + i % 8 * 100);
                p[i][0] = p[i][1] = round * 64 + i;
            }
            for (unsigned long i = 0; i < 64; i++) {
                if (p[i][0] != round * 64 + i || p[i][1] != p[i][0]) _exit(8);
                free(p[i]);
            }
        }
        *left = malloc(100);
        _exit(7);
    }
    return pid;
}
int main(void) {
    crowd_begins(3);
    for (int i = 0; i < 150; i++) {
        void *volatile left = NULL;
        pid_t pid = spawn(&left);
        MUST(pid > 0 && child_ended(pid, 7) && left != NULL);
        free(left);
    }
    crowd_ends();
    return 0;
}
