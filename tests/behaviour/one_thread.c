/* Promise: a program without threads has one thread, whatever it allocates and frees. */
#include "behaviour.h"

int main(void) {
    void *p[500];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 500; i++) MUST((p[i] = malloc(20000 + i * 100)) != NULL);
        for (int i = 0; i < 500; i++) free(p[i]);
        free(malloc(8 << 20));
        free(malloc(100 << 20));
        work(round, 3000);
        MUST(thread_count() == 1);
        sleep_ms(100);
    }
    malloc_trim(0);
    pid_t pid = fork();
    if (pid == 0) {
        free(malloc(8 << 20));
        work(1, 1000);
        _exit(thread_count() == 1 ? 7 : 1);
    }
    MUST(child_ended(pid, 7));
    MUST(thread_count() == 1);
    return 0;
}
