// An object of C++ is deleted twice.
#include "defect.h"
#include <new>

int main() {
    long *volatile a = new long[6];
    tell(a);
    delete[] a;
    delete[] a;
    return 0;
}
