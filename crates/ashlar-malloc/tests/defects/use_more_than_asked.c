/* All bytes that malloc_usable_size tells are used, which is allowed, and freed. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(41);
    memset(a, 1, malloc_usable_size(a));
    free(a);
    return 0;
}
