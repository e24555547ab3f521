/* Promise: malloc_stats that waits for a full standard error holds no lock of malloc: other threads
   allocate. (glibc's tst-malloc-stats-cancellation.) */
#include "behaviour.h"

static void *prints(void *unused) {
    malloc_stats();
    fflush(stderr);
    return unused;
}
int main(void) {
    int ends[2], kept = dup(2);
    char bytes[4096] = "";
    MUST(pipe(ends) == 0);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (write(ends[1], bytes, sizeof bytes) > 0) continue;
    while (write(ends[1], bytes, 1) > 0) continue;
    fcntl(ends[1], F_SETFL, 0);
    MUST(dup2(ends[1], 2) == 2);
    pthread_t t;
    MUST(pthread_create(&t, NULL, prints, NULL) == 0);
    sleep_ms(50);
    int well = 0;
    for (int i = 0; i < 5; i++) {
        work(i, 500);
        free(malloc(8 << 20));
        threaded_work(2);
        well++;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    while (pthread_tryjoin_np(t, NULL) != 0)
        if (read(ends[0], bytes, sizeof bytes) < 0) sleep_ms(1);
    dup2(kept, 2);
    MUST(well == 5);
    return 0;
}
