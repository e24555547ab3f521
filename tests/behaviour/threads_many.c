/* Promise: 400 threads at once allocate, and another thread frees what they leave. */
#include "behaviour.h"

static pthread_barrier_t all;
static void *allocates(void *seed) {
    long *p = malloc(50000);
    MUST(p != NULL);
    *p = (long)seed;
    pthread_barrier_wait(&all);
    work((unsigned long)seed, 30);
    return p;
}
int main(void) {
    enum { COUNT = 400 };
    static pthread_t t[COUNT];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    pthread_barrier_init(&all, NULL, COUNT);
    for (long i = 0; i < COUNT; i++) {
        int code = pthread_create(&t[i], &attributes, allocates, (void *)i);
        errno = code;
        NEEDS(code == 0);
    }
    for (long i = 0; i < COUNT; i++) {
        void *p;
        MUST(pthread_join(t[i], &p) == 0 && *(long *)p == i);
        free(p);
    }
    return 0;
}
