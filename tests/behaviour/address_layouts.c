/* Promise: the program runs without randomised addresses and with the old layout (setarch). */
#include "behaviour.h"
#include <sys/personality.h>

int main(int argc, char **argv) {
    if (argc == 1) {
        for (int i = 0; i < 3; i++) {
            pid_t pid = fork();
            if (pid == 0) {
                const int flags[] = {ADDR_NO_RANDOMIZE, ADDR_COMPAT_LAYOUT, ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT};
                if (personality(flags[i]) == -1) _exit(SKIPPED);
                run_again("other");
            }
            int status;
            MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
            NEEDS(WEXITSTATUS(status) != SKIPPED);
            MUST(WEXITSTATUS(status) == 7);
        }
        return 0;
    }
    (void)argv;
    work(1, 1000);
    free(malloc(100 << 20));
    threaded_work(3);
    return 7;
}
