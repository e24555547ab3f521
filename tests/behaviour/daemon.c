/* Promise: a program that becomes a daemon allocates and starts threads in the background. */
#include "behaviour.h"

int main(void) {
    int ends[2];
    MUST(pipe(ends) == 0);
    free(malloc(8 << 20));
    work(1, 500);
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
        if (daemon(0, 0) != 0) _exit(1);
        work(2, 500);
        threaded_work(3);
        free(malloc(8 << 20));
        _exit(write(ends[1], "well", 4) == 4 ? 0 : 1);
    }
    close(ends[1]);
    char answer[5] = "";
    struct pollfd answers = {ends[0], POLLIN, 0};
    MUST(poll(&answers, 1, 15000) == 1);
    MUST(read(ends[0], answer, 4) == 4);
    MUST(child_ended(pid, 0));
    return 0;
}
