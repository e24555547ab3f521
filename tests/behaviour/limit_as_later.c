/* Promise: a program that lowers its own limit of addresses to 512 MiB, as Python's
   resource.setrlimit, then starts threads, opens libraries and allocates. */
/* beside: plugin */
#include "behaviour.h"

int main(void) {
    work(1, 500);
    free(malloc(1 << 20));
    struct rlimit limit = {512ul << 20, 512ul << 20};
    MUST(setrlimit(RLIMIT_AS, &limit) == 0);
    threaded_work(4); /* stacks of 8 MiB, and on glibc as many arenas of 64 MiB */
    void *library = dlopen(beside("plugin.so"), RTLD_NOW);
    MUST(library != NULL);
    char *p = malloc(100 << 20);
    MUST(p != NULL);
    memset(p, 1, 100 << 20);
    free(p);
    void *small[2000];
    for (int i = 0; i < 2000; i++) MUST((small[i] = malloc(10000)) != NULL);
    for (int i = 0; i < 2000; i++) free(small[i]);
    errno = 0;
    MUST(hide(malloc(600ul << 20)) == NULL && errno == ENOMEM);
    work(2, 500);
    return 0;
}
