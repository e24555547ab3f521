/* Promise: a program with a stack limit of 128 KiB, and threads of that size, runs. */
#include "behaviour.h"

int main(int argc, char **argv) {
    (void)argv;
    if (argc == 1) {
        struct rlimit limit = {128 << 10, 128 << 10};
        MUST(setrlimit(RLIMIT_STACK, &limit) == 0);
        run_again("limited");
    }
    work(1, 1000);
    free(malloc(40 << 20));
    threaded_work(8);
    malloc_trim(0);
    return 0;
}
