/* The element behind the last of an array is written. */
#include "defect.h"

int main(void) {
    long *volatile a = calloc(8, sizeof(long));
    a[8] = 1;
    free(a);
    return 0;
}
