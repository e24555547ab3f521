/* 1 byte before an object are written, which is then freed. */
#include "defect.h"

int main(void) {
    char *volatile first = malloc(40), *volatile a = malloc(40);
    memset(a - 1, 1, 1);
    free(a);
    free(first);
    return 0;
}
