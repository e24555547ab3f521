// An object is deleted with the size of another class.
#include "defect.h"
#include <new>

int main() {
    void *volatile a = ::operator new(40);
    ::operator delete(a, (size_t)400);
    void *volatile b = ::operator new(400);
    return b == a ? HARM : 0;
    return 0;
}
