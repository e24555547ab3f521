/* Promise: what a program at its limit of addresses has freed can be had again in objects of any
   size, also of sizes that it has not asked for before. */
#include "behaviour.h"

int main(int argc, char **argv) {
    (void)argv;
    size_t bytes = 64ul << 20;
    if (argc == 1) {
        struct rlimit limit = {bytes, bytes};
        MUST(setrlimit(RLIMIT_AS, &limit) == 0);
        run_again("limited");
    }
    size_t first = all_in_blocks_of(64);
    /* Sizes near the middle of their class: what the class adds is not the question here. */
    for (size_t size = 112; size <= 2048; size += 112) {
        size_t got = all_in_blocks_of(size);
        MUST(got > first / 2);
    }
    work(1, 300);
    return 0;
}
