/* The bytes that a shorter object no longer has are written. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(64);
    a = realloc(a, 40);
    memset(a, 1, 48);
    free(a);
    return 0;
}
