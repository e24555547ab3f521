/* Promise: threads fork at the same time, their children start threads and fork again. */
#include "behaviour.h"

static void *forks(void *seed) {
    for (int i = 0; i < 8; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            threaded_work(3);
            pid_t second = fork();
            if (second == 0) {
                work((unsigned long)seed, 300);
                _exit(6);
            }
            MUST(second > 0 && child_ended(second, 6));
            _exit(7);
        }
        MUST(pid > 0 && child_ended(pid, 7));
    }
    return NULL;
}
int main(void) {
    pthread_t t[3];
    crowd_begins(2);
    for (long i = 0; i < 3; i++) MUST(pthread_create(&t[i], NULL, forks, (void *)i) == 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    crowd_ends();
    return 0;
}
