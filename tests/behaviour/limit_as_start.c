/* Promise: under a limit of addresses from the start, most of it can be had in small objects, the
   end is ENOMEM, and after free there is as much again. */
#include "behaviour.h"

int main(int argc, char **argv) {
    (void)argv;
    size_t bytes = 128ul << 20;
    if (argc == 1) {
        struct rlimit limit = {bytes, bytes};
        MUST(setrlimit(RLIMIT_AS, &limit) == 0);
        run_again("limited");
    }
    const size_t sizes[] = {64, 1000, 20000, 300000};
    for (int i = 0; i < 4; i++) {
        size_t first = all_in_blocks_of(sizes[i]), second = all_in_blocks_of(sizes[i]);
        /* Of 20000 bytes, slob and pretended nodes leave more unused. */
        MUST(first > (sizes[i] <= 1000 ? bytes / 10 * 6 : bytes / 10 * 4));
        MUST(second > first / 10 * 8);
        work(i, 300);
    }
    return 0;
}
