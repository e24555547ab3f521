/* Habit: programs protect pages inside their blocks, advise the kernel on them, drop them and lock
   them, and free the block when all is as it was. */
#include "behaviour.h"

int main(void) {
    const size_t page = sysconf(_SC_PAGESIZE);
    for (int i = 0; i < 40; i++) {
        size_t size = i % 2 ? 256 * page : 10 * page;
        char *p = aligned_alloc(page, size);
        MUST(p != NULL);
        memset(p, 'a', size);
        MUST(mprotect(p + page, page, PROT_NONE) == 0);
        MUST(mprotect(p + size - page, page, PROT_READ) == 0);
        work(i, 100);
        MUST(p[size - 1] == 'a');
        MUST(mprotect(p + page, page, PROT_READ | PROT_WRITE) == 0);
        MUST(mprotect(p + size - page, page, PROT_READ | PROT_WRITE) == 0);
        MUST(p[page] == 'a');
        MUST(madvise(p + 2 * page, 2 * page, MADV_DONTNEED) == 0);
        for (size_t at = 2 * page; at < 4 * page; at++) MUST(p[at] == 0);
        madvise(p, size, MADV_DONTDUMP);
        madvise(p, size, MADV_DODUMP);
        madvise(p, size, MADV_WILLNEED);
        MUST(p[0] == 'a' && p[4 * page] == 'a');
        free(p);
        char *q = calloc(1, size);
        for (size_t at = 0; at < size; at += 512) MUST(q[at] == 0);
        free(q);
    }
    return 0;
}
