/* 1 byte behind 40 bytes are written, which are then freed. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(40);
    memset(a, 1, 40 + 1);
    free(a);
    return 0;
}
