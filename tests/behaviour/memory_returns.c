/* Promise: memory of large blocks that were freed goes back to the system, soon. */
#include "behaviour.h"

int main(void) {
    long before = resident_kib();
    char *p = malloc(200 << 20);
    MUST(p != NULL);
    memset(p, 1, 200 << 20);
    MUST(resident_kib() > before + (190 << 10));
    free(p);
    for (int i = 0; i < 40 && resident_kib() > before + (40 << 10); i++) {
        sleep_ms(100);
        work(i, 10);
    }
    MUST(resident_kib() < before + (40 << 10));
    return 0;
}
