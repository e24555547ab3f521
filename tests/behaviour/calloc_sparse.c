/* Habit: zeroed tables that are written in few places take memory for these alone. */
#include "behaviour.h"

int main(void) {
    long before = resident_kib();
    char *p[60];
    for (int i = 0; i < 60; i++) {
        MUST((p[i] = calloc(1, 8 << 20)) != NULL);
        p[i][i * 4096 + 5] = 1;
    }
    MUST(resident_kib() < before + (16 << 10));
    char *large = calloc(1ul << 10, 1ul << 20);
    MUST(large != NULL && large[(1ul << 30) - 1] == 0);
    MUST(resident_kib() < before + (20 << 10));
    /* Tables of 130 KiB, too. */
    static char *small[1000];
    for (int i = 0; i < 1000; i++) MUST((small[i] = calloc(1, 130 << 10)) != NULL);
    MUST(resident_kib() < before + (32 << 10));
    for (int i = 0; i < 1000; i++) free(small[i]);
    free(large);
    for (int i = 0; i < 60; i++) free(p[i]);
    return 0;
}
