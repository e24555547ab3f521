/* Promise: main ends by pthread_exit; detached threads go on, allocate, and end the program. */
#include "behaviour.h"

static void *last(void *unused) {
    sleep_ms(20);
    threaded_work(4);
    exit(0);
    return unused;
}
static void *detached(void *seed) {
    pthread_detach(pthread_self());
    work((unsigned long)seed, 500);
    return NULL;
}
int main(void) {
    pthread_t t;
    for (long i = 0; i < 20; i++) MUST(pthread_create(&t, NULL, detached, (void *)i) == 0);
    MUST(pthread_create(&t, NULL, last, NULL) == 0);
    free(malloc(8 << 20));
    pthread_exit(NULL);
}
