/* Promise: siglongjmp out of a handler that interrupts the program outside malloc is harmless. */
#include "behaviour.h"
#include <setjmp.h>
#include <sys/time.h>

static sigjmp_buf back;
static void jumps(int number) { siglongjmp(back, number); }
int main(void) {
    signal(SIGALRM, jumps);
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL); /* the threads inherit it */
    crowd_begins(2);
    void *volatile kept = NULL;
    for (volatile int i = 0; i < 100; i++) {
        pthread_sigmask(SIG_BLOCK, &alarms, NULL);
        free(kept);
        kept = malloc(100 + i * 300);
        work(i, 50);
        struct itimerval once = {{0, 0}, {0, 500}};
        setitimer(ITIMER_REAL, &once, NULL);
        if (sigsetjmp(back, 1) == 0) {
            pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
            for (;;) pause();
        }
    }
    free(kept);
    /* A fault in the program's own code, too. */
    signal(SIGSEGV, jumps);
    for (volatile int i = 0; i < 50; i++) {
        if (sigsetjmp(back, 1) == 0) *(volatile int *)16 = 1;
        work(i, 20);
    }
    crowd_ends();
    return 0;
}
