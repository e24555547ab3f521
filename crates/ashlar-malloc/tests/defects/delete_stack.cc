// A local variable is deleted.
#include "defect.h"
#include <new>

int main() {
    long local[4] = {0};
    long *volatile a = local;
    tell(a);
    delete a;
    return 0;
}
