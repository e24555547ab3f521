/* 8 bytes before an object are written, which is then freed. */
#include "defect.h"

int main(void) {
    char *volatile first = malloc(40), *volatile a = malloc(40);
    memset(a - 8, 1, 8);
    free(a);
    free(first);
    return 0;
}
