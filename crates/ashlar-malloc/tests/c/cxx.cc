// Operators new and delete, and the new handler. Prints "well", or ends with the number of what does not hold.
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <new>

static const size_t TOO_MUCH = (size_t)1 << 62;
struct Thrown {};
static int calls;
static void gives_up(void) {
    if (++calls == 3) std::set_new_handler(nullptr);
}
static void throws_own(void) { throw Thrown(); }
static void throws_bad_alloc(void) { throw std::bad_alloc(); }

template <class E, class F> static bool throws(F f) {
    try {
        void *volatile p = f();
        (void)p;
    } catch (E &) {
        return true;
    }
    return false;
}

struct alignas(128) Wide {
    char bytes[300];
};

int main() {
    if (!throws<std::bad_alloc>([] { return ::operator new(TOO_MUCH); })) return 1;
    std::set_new_handler(gives_up);
    if (!throws<std::bad_alloc>([] { return ::operator new[](TOO_MUCH); }) || calls != 3) return 2;
    std::set_new_handler(throws_own);
    if (!throws<Thrown>([] { return ::operator new(TOO_MUCH); })) return 3;
    if (!throws<Thrown>([] { return ::operator new[](TOO_MUCH, std::align_val_t(64)); })) return 4;
    std::set_new_handler(throws_bad_alloc);
    if (::operator new(TOO_MUCH, std::nothrow) || ::operator new[](TOO_MUCH, std::align_val_t(64), std::nothrow)) return 5;
    std::set_new_handler(nullptr);
    if (::operator new(TOO_MUCH, std::nothrow) || ::operator new[](TOO_MUCH, std::nothrow)) return 6;
    void *a = ::operator new(0), *b = ::operator new(0);
    if (!a || !b || a == b) return 7;
    ::operator delete(a);
    ::operator delete(b, (size_t)0);
    ::operator delete(nullptr);
    for (size_t align = 16; align <= (size_t)1 << 22; align *= 2) {
        void *p = ::operator new(100, std::align_val_t(align));
        void *q = ::operator new[](100, std::align_val_t(align));
        if ((uintptr_t)p % align || (uintptr_t)q % align) return 8;
        ::operator delete(p, (size_t)100, std::align_val_t(align));
        ::operator delete[](q, std::align_val_t(align));
    }
    for (int i = 0; i < 1000; i++) {
        Wide *w = new Wide[i % 7 + 1];
        if ((uintptr_t)w % 128) return 9;
        delete[] w;
        delete new Wide;
        delete[] new (std::nothrow) int[i + 1];
        free(::operator new(i + 1)); // not right, and common
    }
    puts("well");
}
