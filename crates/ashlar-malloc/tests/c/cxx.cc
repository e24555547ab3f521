// Operators new and delete, and the new handler. Prints "well", or ends with the number of what
// does not hold.
#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <new>
#include <sys/resource.h>

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

// Under a limit of what the program may map, all is kept in one reserve; the handler gives it back.
static void *reserve;
static void gives_back(void) {
    calls++;
    free(reserve);
    reserve = nullptr;
    std::set_new_handler(nullptr);
}
static bool room_is_made() {
    rlimit before, limit;
    if (getrlimit(RLIMIT_AS, &before)) return false;
    reserve = malloc((size_t)200 << 20);
    // Room for what is mapped now and little more.
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (!f || fscanf(f, "%lu", &pages) != 1) return !f;
    fclose(f);
    limit = before;
    limit.rlim_cur = pages * 4096 + (16 << 20);
    if (setrlimit(RLIMIT_AS, &limit)) return false;
    calls = 0;
    std::set_new_handler(gives_back);
    void *p = ::operator new((size_t)150 << 20);
    bool well = p && calls == 1 && !reserve;
    ::operator delete(p);
    setrlimit(RLIMIT_AS, &before);
    return well;
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
    // A handler that makes room: it frees what was kept for this moment, and the request is tried
    // again.
    if (!room_is_made()) return 10;
    // Nothrow and aligned together, arrays, and what the delete forms take.
    for (size_t align = 8; align <= 4096; align *= 2) {
        void *p = ::operator new(align * 3, std::align_val_t(align), std::nothrow);
        void *q = ::operator new[](align * 3, std::align_val_t(align), std::nothrow);
        if (!p || !q || (uintptr_t)p % align || (uintptr_t)q % align) return 11;
        ::operator delete(p, std::align_val_t(align), std::nothrow);
        ::operator delete[](q, align * 3, std::align_val_t(align));
    }
    ::operator delete(::operator new(10, std::nothrow), std::nothrow);
    ::operator delete[](::operator new[](10, std::nothrow), std::nothrow);
    ::operator delete[](::operator new[](10), (size_t)10);
    // Too much for any product: bad_array_new_length is a bad_alloc.
    volatile size_t many = (size_t)1 << 62;
    if (!throws<std::bad_alloc>([&] { return (void *)new long[many]; })) return 12;
    puts("well");
}
