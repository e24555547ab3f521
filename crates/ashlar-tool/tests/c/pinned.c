/* Long-lived objects, each among many that are freed: each of its slabs holds a few. Prints "ready"
 * and sleeps. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((noinline)) static void *site_keeps(size_t size) {
    char *volatile at = malloc(size);
    at[0] = 1;
    return at;
}

__attribute__((noinline)) static void *site_passes(size_t size) {
    char *volatile at = malloc(size);
    at[0] = 1;
    return at;
}

/* Slabs of its own, all in use: they pin nothing. */
__attribute__((noinline)) static void *site_fills(size_t size) {
    char *volatile at = malloc(size);
    at[0] = 1;
    return at;
}

#define COUNT 200000
int main(void) {
    static void *passing[COUNT];
    for (int i = 0; i < COUNT; i++) {
        passing[i] = site_passes(200);
        if (i % 40 == 0) site_keeps(200);
        if (i % 10 == 0) site_fills(640);
    }
    for (int i = 0; i < COUNT; i++) free(passing[i]);
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
