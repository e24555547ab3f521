/* Promise: the end of a thread with a stack of the program's, and of stacks beyond the C library's
   cache of 40 MiB, frees memory under the C library's own lock, and ends. */
#include "behaviour.h"

static void *frees(void *seed) {
    work((unsigned long)seed, 100);
    free(malloc(8 << 20));
    return NULL;
}
int main(void) {
    size_t size = 1 << 20;
    for (long round = 0; round < 8; round++) {
        pthread_t t[8];
        void *stacks[8];
        pthread_attr_t attributes;
        for (long i = 0; i < 8; i++) {
            pthread_attr_init(&attributes);
            MUST((stacks[i] = aligned_alloc(4096, size)) != NULL);
            if (i % 2 == 0) MUST(pthread_attr_setstack(&attributes, stacks[i], size) == 0);
            else MUST(pthread_attr_setstacksize(&attributes, 48 << 20) == 0);
            MUST(pthread_create(&t[i], &attributes, frees, (void *)i) == 0);
            pthread_attr_destroy(&attributes);
        }
        for (int i = 0; i < 8; i++) MUST(pthread_join(t[i], NULL) == 0);
        for (int i = 0; i < 8; i++) free(stacks[i]);
        free(malloc(16 << 20));
    }
    return 0;
}
