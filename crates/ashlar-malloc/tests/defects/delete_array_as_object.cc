// An array is deleted as one object.
#include "defect.h"
#include <new>

int main() {
    long *volatile a = new long[6];
    tell(a);
    delete a;
    return 0;
}
