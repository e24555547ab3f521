/* Allocates by the C library alone, until it is told by a line to allocate itself as well. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    struct pollfd in = {.fd = 0, .events = POLLIN};
    char *volatile kept = strdup("kept");
    char line[16];
    int own = 0;
    puts("ready");
    fflush(stdout);
    for (;;) {
        kept = strdup(kept);
        if (own) {
            char *volatile mine = malloc(40);
            free(mine);
        }
        if (!own && poll(&in, 1, 0) > 0 && read(0, line, sizeof line) > 0) {
            own = 1;
            puts("own");
            fflush(stdout);
        }
        usleep(100);
    }
}
