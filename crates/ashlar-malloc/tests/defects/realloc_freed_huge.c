/* A mapping that moved is reallocated once more at its old address. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(100 << 20), *volatile wall;
    /* What lies behind it keeps it from growing in place. */
    wall = mmap(a + (100 << 20) + 4096, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tell(a);
    char *volatile b = realloc(a, 300 << 20);
    if (a == b) return 1;
    a = realloc(a, 400 << 20);
    return wall == b;
}
