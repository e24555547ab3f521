/* Promise: mallopt returns 1 for the known keys, as programs check. (tst-mallopt.) */
#include "behaviour.h"

int main(void) {
    MUST(mallopt(M_MMAP_THRESHOLD, 256 << 10) == 1);
    MUST(mallopt(M_TRIM_THRESHOLD, 256 << 10) == 1);
    MUST(mallopt(M_TOP_PAD, 64 << 10) == 1);
    MUST(mallopt(M_MMAP_MAX, 1000) == 1);
    MUST(mallopt(M_MXFAST, 64) == 1);
    MUST(mallopt(M_ARENA_MAX, 2) == 1);
    MUST(mallopt(M_ARENA_TEST, 2) == 1);
    MUST(mallopt(M_CHECK_ACTION, 3) == 1);
    work(1, 1000);
    threaded_work(3);
    MUST(mallopt(M_PERTURB, 0x55) == 1);
    work(2, 1000);
    return 0;
}
