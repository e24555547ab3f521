/* Promise: coroutines on stacks from malloc allocate, and move between threads. */
#include "behaviour.h"
#include <ucontext.h>

enum { COUNT = 16, STACK = 128 << 10, STEPS = 40 };
static struct {
    ucontext_t own, caller;
    char *stack;
    int steps;
} routines[COUNT];
static void runs(int number) {
    void *kept = NULL;
    for (int i = 0; i < STEPS; i++) {
        work(number * 100 + i, 20);
        free(kept);
        kept = malloc(500 + i * 100);
        routines[number].steps++;
        swapcontext(&routines[number].own, &routines[number].caller);
    }
    free(kept);
}
static void *resumes(void *unused) {
    for (int i = 0; i < COUNT; i++) swapcontext(&routines[i].caller, &routines[i].own);
    return unused;
}
int main(void) {
    for (int i = 0; i < COUNT; i++) {
        getcontext(&routines[i].own);
        routines[i].stack = malloc(STACK);
        routines[i].own.uc_stack.ss_sp = routines[i].stack;
        routines[i].own.uc_stack.ss_size = STACK;
        routines[i].own.uc_link = &routines[i].caller;
        makecontext(&routines[i].own, (void (*)(void))runs, 1, i);
    }
    for (int step = 0; step < STEPS; step++) {
        pthread_t t;
        MUST(pthread_create(&t, NULL, resumes, NULL) == 0);
        pthread_join(t, NULL);
    }
    for (int i = 0; i < COUNT; i++) {
        MUST(routines[i].steps == STEPS);
        free(routines[i].stack);
    }
    return 0;
}
