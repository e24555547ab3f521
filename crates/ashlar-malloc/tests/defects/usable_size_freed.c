/* The size of a freed object is asked for. */
#include "defect.h"

int main(void) {
    void *volatile a = malloc(50);
    tell(a);
    free(a);
    return malloc_usable_size(a) == 0;
}
