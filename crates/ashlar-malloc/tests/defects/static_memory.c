/* A global variable is freed. */
#include "defect.h"

static long global[4];
int main(void) {
    void *volatile a = global;
    tell(a);
    free(a);
    return 0;
}
