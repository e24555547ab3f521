/* Promise: new throws bad_alloc, nothrow new is null, the new handler is called, and all forms of
   new and delete fit each other, aligned ones too. */
/* flags: -std=c++17 */
#include "behaviour.h"
#include <memory>
#include <new>
#include <vector>

struct alignas(256) Aligned {
    char bytes[1000];
};
static int handled;
static void handler() {
    if (++handled == 3) std::set_new_handler(nullptr);
}
int main() {
    volatile size_t too_large = PTRDIFF_MAX - 100;
    int caught = 0;
    try {
        free(::operator new(too_large));
    } catch (std::bad_alloc &) {
        caught++;
    }
    try {
        delete[] new char[too_large];
    } catch (std::bad_alloc &) {
        caught++;
    }
    try {
        ::operator delete(::operator new(too_large, std::align_val_t(4096)), std::align_val_t(4096));
    } catch (std::bad_alloc &) {
        caught++;
    }
    MUST(caught == 3);
    MUST(::operator new(too_large, std::nothrow) == nullptr);
    std::set_new_handler(handler);
    MUST(::operator new[](too_large, std::nothrow) == nullptr && handled == 3);
    for (int i = 0; i < 200; i++) {
        auto *one = new Aligned;
        auto *many = new Aligned[3];
        MUST((uintptr_t)one % 256 == 0 && (uintptr_t)many % 256 == 0);
        delete one;
        delete[] many;
        ::operator delete(::operator new(i * 100), (size_t)i * 100);
        ::operator delete[](::operator new[](i * 100), (size_t)i * 100);
        ::operator delete(::operator new(100, std::align_val_t(64)), 100, std::align_val_t(64));
        void *zero = ::operator new(0);
        MUST(zero != nullptr);
        ::operator delete(zero, std::nothrow);
        std::vector<std::unique_ptr<std::vector<int>>> nested;
        for (int k = 0; k < 50; k++) nested.push_back(std::make_unique<std::vector<int>>(k * 10));
    }
    return 0;
}
