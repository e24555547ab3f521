// An array whose objects have destructors is deleted as one object: the address is not its start.
#include "defect.h"
#include <new>

struct Counted {
    long value[4];
    ~Counted() { value[0] = 1; }
};

int main() {
    Counted *volatile a = new Counted[6];
    tell(a);
    delete a;
    return 0;
}
