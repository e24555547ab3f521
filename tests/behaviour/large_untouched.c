/* Habit: large blocks take memory where they are written only, also after realloc. */
#include "behaviour.h"

int main(void) {
    long before = resident_kib();
    char *p = malloc(1ul << 30);
    NEEDS(p != NULL);
    p[0] = p[(1ul << 30) - 1] = 1;
    MUST((p = realloc(p, 3ul << 29)) != NULL);
    MUST(p[0] == 1 && p[(1ul << 30) - 1] == 1);
    p[(3ul << 29) - 1] = 1;
    /* The kernel may give each place a huge page. */
    MUST(resident_kib() < before + (16 << 10));
    free(p);
    MUST(resident_kib() < before + (16 << 10));
    return 0;
}
