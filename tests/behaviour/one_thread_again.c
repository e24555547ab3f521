/* Promise: a program whose threads were all joined has one thread again, however short they lived. */
#include "behaviour.h"

static void *ends(void *unused) { return unused; }

int main(void) {
    for (int round = 0; round < 2000; round++) {
        pthread_t thread;
        MUST(pthread_create(&thread, NULL, ends, NULL) == 0);
        MUST(pthread_join(thread, NULL) == 0);
        /* The kernel counts a thread for a moment after its end. */
        for (int look = 0; look < 1000 && thread_count() != 1; look++) sleep_ms(1);
        MUST(thread_count() == 1);
    }
    return 0;
}
