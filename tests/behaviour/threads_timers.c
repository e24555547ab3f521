/* Promise: threads that the C library starts, for timers and asynchronous reads, allocate. */
/* flags: -lrt */
#include "behaviour.h"
#include <aio.h>

static volatile int fired;
static void notified(union sigval value) {
    work(value.sival_int, 100);
    __atomic_add_fetch(&fired, 1, __ATOMIC_SEQ_CST);
}
int main(void) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notified};
    struct itimerspec every = {{0, 5000000}, {0, 5000000}};
    timer_t timer;
    MUST(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    MUST(timer_settime(timer, 0, &every, NULL) == 0);
    int fd = open("/proc/self/exe", O_RDONLY);
    for (int i = 0; i < 30 || fired < 10; i++) {
        char *buffer = malloc(4096);
        struct aiocb request = {.aio_fildes = fd, .aio_buf = buffer, .aio_nbytes = 4096};
        MUST(aio_read(&request) == 0);
        const struct aiocb *list[] = {&request};
        while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, NULL);
        MUST(aio_return(&request) > 0 && memcmp(buffer, "\177ELF", 4) == 0);
        free(buffer);
    }
    MUST(timer_delete(timer) == 0);
    sleep_ms(20);
    return 0;
}
