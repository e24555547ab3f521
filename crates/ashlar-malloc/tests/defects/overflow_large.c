/* A byte behind 100,000 is written. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(100000);
    a[100000] = 1;
    free(a);
    return 0;
}
