/* The address of a function is freed. */
#include "defect.h"

int main(void) {
    void *volatile a = (void *)main;
    tell(a);
    free(a);
    return 0;
}
