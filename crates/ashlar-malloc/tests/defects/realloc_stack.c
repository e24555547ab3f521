/* A local array is reallocated. */
#include "defect.h"

int main(void) {
    long local[8] = {0};
    void *volatile a = local;
    tell(a);
    return realloc(a, 500) == NULL;
    return 0;
}
