/* Promise: vfork and exec beside threads that allocate, also from threads. */
#include "behaviour.h"

static void *spawns(void *unused) {
    for (int i = 0; i < 25; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
            _exit(9);
        }
        MUST(pid > 0 && child_ended(pid, 3));
    }
    return unused;
}
int main(void) {
    unsetenv("LD_PRELOAD");
    crowd_begins(2);
    pthread_t t[2];
    for (int i = 0; i < 2; i++) MUST(pthread_create(&t[i], NULL, spawns, NULL) == 0);
    spawns(NULL);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    crowd_ends();
    return 0;
}
