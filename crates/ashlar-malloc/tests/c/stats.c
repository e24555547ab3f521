/* For gdb: allocates, then calls a function that few programs call. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    for (int i = 0; i < 20; i++) free(malloc(i * 100));
    malloc_info(0, stderr);
    puts("well");
    return 0;
}
