/* Habit: programs protect pages inside their blocks, advise the kernel on them, drop them and lock
   them, and free the block when all is as it was. */
#include "behaviour.h"

int main(void) {
    for (int i = 0; i < 40; i++) {
        size_t size = i % 2 ? 1 << 20 : 40960;
        char *p = aligned_alloc(4096, size);
        MUST(p != NULL);
        memset(p, 'a', size);
        MUST(mprotect(p + 4096, 4096, PROT_NONE) == 0);
        MUST(mprotect(p + size - 4096, 4096, PROT_READ) == 0);
        work(i, 100);
        MUST(p[size - 1] == 'a');
        MUST(mprotect(p + 4096, 4096, PROT_READ | PROT_WRITE) == 0);
        MUST(mprotect(p + size - 4096, 4096, PROT_READ | PROT_WRITE) == 0);
        MUST(p[4096] == 'a');
        MUST(madvise(p + 8192, 8192, MADV_DONTNEED) == 0);
        for (int at = 8192; at < 16384; at++) MUST(p[at] == 0);
        madvise(p, size, MADV_DONTDUMP);
        madvise(p, size, MADV_DODUMP);
        madvise(p, size, MADV_WILLNEED);
        MUST(p[0] == 'a' && p[16384] == 'a');
        free(p);
        char *q = calloc(1, size);
        for (size_t at = 0; at < size; at += 512) MUST(q[at] == 0);
        free(q);
    }
    return 0;
}
