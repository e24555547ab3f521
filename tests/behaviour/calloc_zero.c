/* Promise: calloc's memory is zero, whatever was there before, in threads too. (tst-calloc.) */
#include "behaviour.h"

static void *runs(void *seed) {
    struct rng r = {(unsigned long)seed};
    for (int i = 0; i < 3000; i++) {
        size_t size = 1 + rng_next(&r) % (i % 50 == 0 ? 3000000 : 3000);
        char *dirty = malloc(size);
        MUST(dirty != NULL);
        memset(dirty, 0xff, malloc_usable_size(dirty));
        free(dirty);
        char *p = calloc(1 + size % 3, size / (1 + size % 3) + 1);
        MUST(p != NULL);
        for (size_t at = 0; at < size; at++) MUST(p[at] == 0);
        memset(p, 0xff, size);
        free(p);
    }
    return NULL;
}
int main(void) {
    pthread_t t[2];
    for (long i = 0; i < 2; i++) MUST(pthread_create(&t[i], NULL, runs, (void *)i) == 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    return 0;
}
