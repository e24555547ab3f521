// An object of C++ is written after its deletion, and the next ones are allocated.
#include "defect.h"
#include <new>

int main() {
    long *volatile a = new long[8];
    delete[] a;
    static_cast<volatile long *>(a)[1] = 0x4141414141414141;
    for (int i = 0; i < 100; i++) {
        void *volatile next = ::operator new(64);
        if (next == nullptr) return 1;
    }
    return 0;
}
