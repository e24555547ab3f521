/* Promise: exit beside threads that allocate ends with the code of exit, and quick_exit as well. */
#include "behaviour.h"

static void allocates(void) { work(5, 200); }
int main(void) {
    for (int i = 0; i < 24; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            crowd_begins(4);
            atexit(allocates);
            at_quick_exit(allocates);
            usleep(i * 200);
            if (i % 3 == 0) quick_exit(7);
            exit(7);
        }
        MUST(pid > 0 && child_ended(pid, 7));
    }
    return 0;
}
