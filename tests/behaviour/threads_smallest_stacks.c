/* Promise: every call works on the smallest stack that a thread may have. */
#include "behaviour.h"

static void *everything(void *seed) {
    void *p = malloc(100), *q = NULL;
    free(p);
    p = calloc(3, 70000);
    p = realloc(p, 3 << 20);
    free(p);
    MUST(posix_memalign(&q, 1 << 16, 100000) == 0);
    free(q);
    free(aligned_alloc(4096, 8192));
    work((unsigned long)seed, 500);
    free(malloc(40 << 20));
    malloc_trim(0);
    MUST(malloc_usable_size(p = malloc(10)) >= 10);
    free(p);
    return NULL;
}
int main(void) {
    /* Debug builds use more stack; the runner says so. */
    NEEDS(getenv("BEHAVIOUR_DEBUG") == NULL);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    MUST(pthread_attr_setstacksize(&attributes, sysconf(_SC_THREAD_STACK_MIN)) == 0);
    for (int round = 0; round < 5; round++) {
        pthread_t t[20];
        for (long i = 0; i < 20; i++) MUST(pthread_create(&t[i], &attributes, everything, (void *)i) == 0);
        for (int i = 0; i < 20; i++) MUST(pthread_join(t[i], NULL) == 0);
    }
    return 0;
}
