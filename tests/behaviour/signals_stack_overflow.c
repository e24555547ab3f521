/* Promise: a handler for SIGSEGV on its own stack, allocated by malloc, sees a stack overflow. */
#include "behaviour.h"
#include <setjmp.h>

static sigjmp_buf back;
static void jumps(int number) { siglongjmp(back, number); }
static int overflows(volatile char *above) {
    volatile char here[4096];
    here[0] = above[0];
    return overflows(here) + here[1];
}
static void *in_thread(void *unused) {
    stack_t stack = {.ss_size = 64 << 10};
    stack.ss_sp = malloc(stack.ss_size);
    MUST(sigaltstack(&stack, NULL) == 0);
    if (sigsetjmp(back, 1) == 0) overflows((volatile char *)"x");
    work(1, 500);
    stack.ss_flags = SS_DISABLE;
    MUST(sigaltstack(&stack, NULL) == 0);
    free(stack.ss_sp);
    return unused;
}
int main(void) {
    struct sigaction action = {.sa_handler = jumps, .sa_flags = SA_ONSTACK};
    MUST(sigaction(SIGSEGV, &action, NULL) == 0);
    in_thread(NULL);
    pthread_t t;
    MUST(pthread_create(&t, NULL, in_thread, NULL) == 0);
    pthread_join(t, NULL);
    return 0;
}
