// Memory of malloc is deleted.
#include "defect.h"
#include <new>

int main() {
    long *volatile a = (long *)malloc(48);
    tell(a);
    delete a;
    return 0;
}
