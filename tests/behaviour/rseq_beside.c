/* Promise: the program may use the C library's rseq area: the CPU number in it stays right. */
#include "behaviour.h"

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));
int main(void) {
    NEEDS(&__rseq_size != NULL && __rseq_size > 0);
    cpu_set_t allowed, one;
    MUST(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    volatile unsigned *cpu = (volatile unsigned *)((char *)__builtin_thread_pointer() + __rseq_offset + 4);
    for (int round = 0; round < 20; round++)
        for (int i = 0; i < CPU_SETSIZE; i++) {
            if (!CPU_ISSET(i, &allowed)) continue;
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            MUST(sched_setaffinity(0, sizeof one, &one) == 0);
            work(i, 50);
            MUST(*cpu == (unsigned)i && sched_getcpu() == i);
        }
    return 0;
}
