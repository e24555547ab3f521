/* A small program for debuggers: threads, signals, blocks of several sizes. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) int twice(int x) {
    char *p = malloc(x);
    memset(p, 1, x);
    free(p);
    return x * 2;
}
static void *runs(void *seed) {
    long sum = 0;
    for (int i = 1; i < 2000; i++) {
        char *p = calloc(1, i * 3), *q = realloc(malloc(i), i * 20);
        q[i] = 1;
        sum += p[i] + q[i] + (long)seed;
        free(p);
        free(q);
    }
    return (void *)sum;
}
__attribute__((noinline)) void middle(void) { puts("in the middle"); }
int main(void) {
    pthread_t t[4];
    long all = 0;
    for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, runs, (void *)i);
    middle();
    for (int i = 0; i < 4; i++) {
        void *sum;
        pthread_join(t[i], &sum);
        all += (long)sum;
    }
    printf("%ld %d\n", all, twice(21));
    return 0;
}
