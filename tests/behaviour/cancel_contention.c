/* Promise: threads that are cancelled at their own points while they allocate leave no lock held;
   their cleanup handlers free. */
#include "behaviour.h"

static void *runs(void *seed) {
    for (unsigned long i = 0;; i++) {
        char *kept = malloc(100 + i % 5000);
        pthread_cleanup_push(free, kept);
        work((unsigned long)seed + i, 20);
        pthread_testcancel();
        if (i % 3 == 0) usleep(1);
        pthread_cleanup_pop(1);
    }
    return NULL;
}
int main(void) {
    crowd_begins(2);
    for (int round = 0; round < 15; round++) {
        pthread_t t[6];
        for (long i = 0; i < 6; i++) MUST(pthread_create(&t[i], NULL, runs, (void *)i) == 0);
        sleep_ms(3);
        for (int i = 0; i < 6; i++) MUST(pthread_cancel(t[i]) == 0);
        for (int i = 0; i < 6; i++) MUST(pthread_join(t[i], NULL) == 0);
    }
    crowd_ends();
    work(1, 1000);
    return 0;
}
