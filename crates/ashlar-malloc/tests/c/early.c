/* Allocation before and after everything: an IFUNC resolver, the first constructor, the last
   destructor, atexit, and detached threads that go on while the program ends. */
#include "must.h"

static void *from_resolver, *from_constructor, *at_first;
static int one(void) { return 1; }
static int (*resolve(void))(void) {
    from_resolver = malloc(100);
    return one;
}
int chosen(void) __attribute__((ifunc("resolve")));

__attribute__((constructor(101))) static void first(void) {
    at_first = memset(malloc(1000), 5, 1000);
    free(malloc(50000));
}
__attribute__((constructor)) static void early(void) { from_constructor = calloc(10, 10); }
__attribute__((destructor(101))) static void last(void) {
    free(at_first);
    work(9, 500);
}
static void at_end(void) {
    free(from_constructor);
    work(8, 500);
}
static void *goes_on(void *seed) {
    for (;;) work((unsigned long)seed, 300);
    return NULL;
}

int main(void) {
    MUST(chosen() == 1 && at_first != NULL && from_constructor != NULL && from_resolver != NULL);
    free(from_resolver);
    MUST(atexit(at_end) == 0);
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (long i = 0; i < 4; i++) {
        pthread_t t;
        MUST(pthread_create(&t, &detached, goes_on, (void *)(i + 20)) == 0);
    }
    work(1, 5000);
    puts("well");
    return 0;
}
