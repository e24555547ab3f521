/* A handler that allocates, which POSIX does not allow and programs do, interrupts allocation on
   the fast path some thousand times. What holds: neither deadlock nor damage, as a fast path holds
   no lock and the handler's own work is complete before the path goes on. The reaper must be off,
   and the CPU one from the program's start, so that it stays the fast path: objects of another CPU,
   also of this program before it moved, would be put aside for that. */
#include "must.h"
#include <sys/time.h>

static volatile int count;
static void handler(int signal) {
    (void)signal;
    unsigned long *p = malloc(64);
    p[0] = p[7] = 0x5157a1;
    unsigned long *q = malloc(64);
    q[0] = q[7] = 0x5157a2;
    if (p == q || p[0] != 0x5157a1 || p[7] != 0x5157a1) _exit(3);
    free(p);
    free(q);
    count++;
}

int main(int argc, char **argv) {
    (void)argc;
    cpu_set_t one;
    MUST(sched_getaffinity(0, sizeof one, &one) == 0);
    if (CPU_COUNT(&one) > 1) {
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        MUST(sched_setaffinity(0, sizeof one, &one) == 0);
        execv("/proc/self/exe", argv);
        return 2;
    }
    void *warm[20];
    for (int i = 0; i < 20; i++) warm[i] = malloc(64);
    for (int i = 0; i < 20; i++) free(warm[i]);
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 200}, {0, 200}};
    setitimer(ITIMER_REAL, &often, NULL);
    alarm(0);
    setitimer(ITIMER_REAL, &often, NULL);
    for (unsigned long i = 0; count < 3000; i++) {
        unsigned long *p = malloc(64);
        p[0] = p[7] = i;
        unsigned long *q = malloc(64);
        q[0] = q[7] = ~i;
        MUST(p != q && p[0] == i && p[7] == i && q[0] == ~i && q[7] == ~i);
        free(q);
        free(p);
    }
    struct itimerval never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &never, NULL);
    puts("well");
    return 0;
}
