/* Promise: mlock and munlock of memory from malloc, and mlockall(MCL_CURRENT) with privilege, keep
   resident memory within what is used. */
#include "behaviour.h"

int main(void) {
    char *p = aligned_alloc(4096, 40960);
    NEEDS(mlock(p, 40960) == 0);
    memset(p, 1, 40960);
    MUST(munlock(p, 40960) == 0);
    free(p);
    free(malloc(10 << 20));
    NEEDS(mlockall(MCL_CURRENT) == 0);
    MUST(resident_kib() < 200 << 10);
    work(1, 1000);
    MUST(munlockall() == 0);
    threaded_work(2);
    return 0;
}
