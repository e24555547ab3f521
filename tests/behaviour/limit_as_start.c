/* Promise: under a limit of addresses from the start, most of it can be had in small objects, the
   end is ENOMEM, and after free there is as much again. */
#include "behaviour.h"

struct link {
    struct link *next;
};
static size_t until_the_end(size_t size) {
    struct link *all = NULL;
    size_t got = 0;
    for (;;) {
        errno = 0;
        struct link *p = malloc(size);
        if (p == NULL) break;
        p->next = all;
        all = p;
        got += size;
        MUST(got < 1ul << 32);
    }
    MUST(errno == ENOMEM);
    while (all) {
        struct link *next = all->next;
        free(all);
        all = next;
    }
    return got;
}
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
        size_t first = until_the_end(sizes[i]), second = until_the_end(sizes[i]);
        /* Of 20000 bytes, slob and pretended nodes leave more unused. */
        MUST(first > (sizes[i] <= 1000 ? bytes / 10 * 6 : bytes / 10 * 4));
        MUST(second > first / 10 * 8);
        work(i, 300);
    }
    return 0;
}
