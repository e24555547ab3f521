/* Habit: large blocks take memory where they are written only, also after realloc. */
#include "behaviour.h"

/* Bytes of a huge page, which the kernel may give each place. */
static long huge_kib(void) {
    long bytes = 0;
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "r");
    if (file == NULL) return 2 << 10;
    if (fscanf(file, "%ld", &bytes) != 1) bytes = 2 << 20;
    fclose(file);
    return bytes >> 10;
}

int main(void) {
    long most = 3 * huge_kib() + (10 << 10), before = resident_kib();
    char *p = malloc(1ul << 30);
    NEEDS(p != NULL);
    p[0] = p[(1ul << 30) - 1] = 1;
    MUST((p = realloc(p, 3ul << 29)) != NULL);
    MUST(p[0] == 1 && p[(1ul << 30) - 1] == 1);
    p[(3ul << 29) - 1] = 1;
    MUST(resident_kib() < before + most);
    free(p);
    MUST(resident_kib() < before + (16 << 10));
    return 0;
}
