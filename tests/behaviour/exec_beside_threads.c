/* Promise: exec from a thread beside threads that allocate; the new program allocates as well. */
#include "behaviour.h"

static void *executes(void *argument) {
    sleep_ms(5);
    run_again(argument);
    return NULL;
}
int main(int argc, char **argv) {
    int round = argc > 1 ? atoi(argv[1]) : 0;
    work(round, 500);
    if (round == 8) return 0;
    char next[8];
    snprintf(next, sizeof next, "%d", round + 1);
    crowd_begins(3);
    pthread_t t;
    MUST(pthread_create(&t, NULL, executes, next) == 0);
    pthread_join(t, NULL);
    return 1;
}
