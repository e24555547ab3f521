/* A local variable is freed. */
#include "defect.h"

int main(void) {
    long local[4] = {0};
    void *volatile a = local;
    tell(a);
    free(a);
    return 0;
}
