/* A pointer one byte into a small object is freed. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(24);
    tell(a + 1);
    free(a + 1);
    return 0;
}
