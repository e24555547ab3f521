/* Promise: malloc holds no file descriptor, survives that a program closes all, and writes nothing
   to one that the program opens in the place of standard error. */
#include "behaviour.h"

int main(int argc, char **argv) {
    (void)argv;
    if (argc == 1) {
        close(0), close(1); /* 2 tells what fails */
        run_again("closed");
    }
    work(1, 500);
    threaded_work(2);
    int low = open("/dev/null", O_RDWR);
    MUST(low == 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 1024; i++) close(i);
        work(2, 500);
        free(malloc(40 << 20));
        threaded_work(3);
        int null = open("/dev/null", O_RDWR);
        int end[2];
        if (null != 0 || pipe(end) != 0 || dup2(end[1], 2) != 2) _exit(1);
        work(3, 500);
        errno = 0;
        if (hide(malloc(SIZE_MAX / 4)) != NULL) _exit(2);
        malloc_trim(0);
        free(malloc(100 << 20));
        fcntl(end[0], F_SETFL, O_NONBLOCK);
        char byte;
        _exit(read(end[0], &byte, 1) == -1 && errno == EAGAIN ? 7 : 3);
    }
    MUST(child_ended(pid, 7));
    return 0;
}
