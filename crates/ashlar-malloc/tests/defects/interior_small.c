/* A pointer into a small object, at a multiple of 16, is freed. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(200);
    tell(a + 48);
    free(a + 48);
    return 0;
}
