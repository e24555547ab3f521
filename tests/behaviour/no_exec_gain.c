/* Promise: malloc and threads work under PR_SET_MDWE, where no writable page becomes executable. */
#include "behaviour.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif
int main(int argc, char **argv) {
    (void)argv;
    if (argc == 1) {
        NEEDS(prctl(PR_SET_MDWE, 1, 0, 0, 0) == 0);
        pid_t pid = fork(); /* it is inherited by fork, and lost by exec */
        if (pid == 0) {
            work(1, 1000);
            free(malloc(40 << 20));
            threaded_work(4);
            malloc_trim(0);
            _exit(7);
        }
        MUST(child_ended(pid, 7));
        work(2, 1000);
        threaded_work(2);
    }
    return 0;
}
