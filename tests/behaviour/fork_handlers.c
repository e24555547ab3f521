/* Promise: fork handlers of the program allocate small, large and by thousands, with threads. */
#include "behaviour.h"

static void *kept[3000];
static void allocates(void) {
    for (int i = 0; i < 3000; i++) {
        free(kept[i]);
        kept[i] = malloc(i % 500 == 0 ? 3 << 20 : 16 + i);
        MUST(kept[i] != NULL);
        *(int *)kept[i] = i;
    }
    work(3, 100);
    free(malloc(40 << 20));
}

int main(void) {
    MUST(pthread_atfork(allocates, allocates, allocates) == 0);
    crowd_begins(3);
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (int k = 0; k < 3000; k++) MUST(*(int *)kept[k] == k);
            _exit(7);
        }
        MUST(pid > 0 && child_ended(pid, 7));
    }
    crowd_ends();
    return 0;
}
