// Memory of new is freed.
#include "defect.h"
#include <new>

int main() {
    long *volatile a = new long[6];
    tell(a);
    free(a);
    return 0;
}
