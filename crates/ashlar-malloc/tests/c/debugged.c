/* For gdb: 60 lines of malloc and free to step over. */
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    char *volatile p[20];
    int i = 0;
    for (i = 0; i < 20; i++) {
        p[i] = malloc(i * 100);
        p[i] = realloc(p[i], 50);
        free(p[i]);
    }
    puts("well");
    return 0;
}
