/* Promise: signals that arrive all the time disturb no block. */
#include "behaviour.h"
#include <sys/time.h>

static volatile int handled;
static void counts(int number) { handled += number == SIGALRM; }
int main(void) {
    struct sigaction action = {.sa_handler = counts, .sa_flags = SA_RESTART};
    MUST(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval every = {{0, 100}, {0, 100}};
    MUST(setitimer(ITIMER_REAL, &every, NULL) == 0);
    crowd_begins(3);
    for (int i = 0; i < 100; i++) work(i + 50000, 1000);
    crowd_ends();
    MUST(handled > 20);
    return 0;
}
