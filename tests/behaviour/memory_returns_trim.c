/* Promise: malloc_trim gives back what many small blocks left, and says so. (tst-malloc_trim.) */
#include "behaviour.h"

int main(void) {
    enum { COUNT = 200000 };
    static void *p[COUNT];
    long before = resident_kib();
    for (int i = 0; i < COUNT; i++) {
        p[i] = malloc(500);
        memset(p[i], 1, 500);
    }
    MUST(resident_kib() > before + (90 << 10));
    void *last = malloc(500);
    for (int i = 0; i < COUNT; i++) free(p[i]);
    int answer = malloc_trim(0);
    MUST(answer == 0 || answer == 1);
    MUST(resident_kib() < before + (20 << 10));
    free(last);
    work(1, 1000);
    malloc_trim(1 << 20);
    work(2, 1000);
    return 0;
}
