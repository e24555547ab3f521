// No code here names std::bad_alloc, so nothing of it is linked statically.
#include <cstddef>
#include <cstdio>

int main() {
    try {
        char *volatile p = new char[(size_t)1 << 62];
        (void)p;
    } catch (...) {
        puts("well");
        return 0;
    }
    return 1;
}
