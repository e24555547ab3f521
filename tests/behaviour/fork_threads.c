/* Promise: a child of fork allocates and frees, whatever other threads did at the time. */
#include "behaviour.h"

int main(void) {
    crowd_begins(4);
    for (int i = 0; i < 60; i++) {
        void *before[3] = {malloc(100), malloc(5000), malloc(1 << 20)};
        pid_t pid = fork();
        if (pid == 0) {
            for (int k = 0; k < 3; k++) free(before[k]);
            work(i, 300);
            if (i % 10 == 0) threaded_work(3);
            _exit(7);
        }
        MUST(pid > 0 && child_ended(pid, 7));
        for (int k = 0; k < 3; k++) free(before[k]);
    }
    crowd_ends();
    return 0;
}
