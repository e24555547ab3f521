/* Promise: what a program at its limit of addresses has freed can be had again in objects of any
   size, also of sizes that it has not asked for before. */
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
    size_t bytes = 64ul << 20;
    if (argc == 1) {
        struct rlimit limit = {bytes, bytes};
        MUST(setrlimit(RLIMIT_AS, &limit) == 0);
        run_again("limited");
    }
    size_t first = until_the_end(64);
    /* Sizes near the middle of their class: what the class adds is not the question here. */
    for (size_t size = 112; size <= 2048; size += 112) {
        size_t got = until_the_end(size);
        MUST(got > first / 2);
    }
    work(1, 300);
    return 0;
}
