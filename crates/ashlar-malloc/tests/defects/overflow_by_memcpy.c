/* A copy of 100 bytes goes to an object of 64. */
#include "defect.h"

int main(void) {
    static char from[100];
    char *volatile a = malloc(64);
    memcpy(a, from, 100);
    free(a);
    return 0;
}
