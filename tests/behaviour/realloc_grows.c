/* Promise: a block grows byte by byte and to 256 MiB by steps, keeps its contents, and gives memory
   back when it shrinks. */
#include "behaviour.h"

int main(void) {
    char *p = NULL;
    for (size_t size = 1; size < 40000; size++) {
        MUST((p = realloc(p, size)) != NULL);
        p[size - 1] = (char)size;
    }
    for (size_t size = 1; size < 40000; size++) MUST(p[size - 1] == (char)size);
    for (size_t size = 1 << 20; size <= 256u << 20; size += size / 3) {
        MUST((p = realloc(p, size)) != NULL);
        p[size - 1] = 'x';
        MUST(p[0] == 1 && p[39998] == (char)39999);
    }
    MUST(resident_kib() < 60 << 10);
    memset(p + 40000, 1, 200 << 20);
    MUST(resident_kib() > 200 << 10);
    MUST((p = realloc(p, 40000)) != NULL);
    sleep_ms(10);
    MUST(resident_kib() < 60 << 10);
    for (size_t size = 1; size < 40000; size++) MUST(p[size - 1] == (char)size);
    free(p);
    return 0;
}
