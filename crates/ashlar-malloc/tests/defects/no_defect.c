/* Program data that looks like the mark of a free object is no defect. */
#include "defect.h"

int main(void) {
    uintptr_t *volatile a = malloc(50);
    uintptr_t *volatile b = malloc(50);
    free(a);
    uintptr_t mark = *a; /* read after free, on purpose: what the allocator leaves there */
    *b = mark;
    free(b);
    a = malloc(50);
    b = malloc(50);
    *a = *b = mark;
    if (a == b || malloc_usable_size(a) < 50 || realloc(a, 60) != a) return 1;
    free(a);
    free(b);
    free(NULL);
    puts("well");
    return 0;
}
