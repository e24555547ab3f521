/* Promise: forty generations of fork, each of which allocates and frees what its parent left. */
#include "behaviour.h"

int main(void) {
    void *left = malloc(3000);
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        MUST(pid >= 0);
        if (pid > 0) {
            work(i, 50);
            int status;
            MUST(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
            _exit(WEXITSTATUS(status));
        }
        free(left);
        left = malloc(3000 + i * 100);
        work(i, 50);
        if (i % 10 == 0) threaded_work(2);
    }
    return 0;
}
