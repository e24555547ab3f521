// What is thrown is a std::bad_alloc in every way a program can tell.
#include <cstdio>
#include <cstring>
#include <new>
#include <typeinfo>

static void *volatile sink;
struct Guard {
    int &n;
    ~Guard() { n++; }
};

int main() {
    int unwound = 0;
    for (int i = 0; i < 3; i++) {
        try {
            Guard guard{unwound};
            sink = ::operator new((size_t)1 << 62);
            return 1;
        } catch (const std::bad_alloc &e) {
            if (i != 0 || strcmp(e.what(), "std::bad_alloc") || typeid(e) != typeid(std::bad_alloc)) {
                if (i == 0) return 2;
            }
        }
    }
    try {
        sink = ::operator new((size_t)1 << 62, std::align_val_t(64));
        return 3;
    } catch (std::exception &e) {
        if (!dynamic_cast<std::bad_alloc *>(&e)) return 4;
    }
    try {
        try {
            sink = ::operator new[]((size_t)1 << 62);
            return 5;
        } catch (...) {
            throw;
        }
    } catch (std::bad_alloc copy) {
        if (strcmp(copy.what(), "std::bad_alloc")) return 6;
    }
    if (unwound != 3) return 7;
    puts("well");
}
