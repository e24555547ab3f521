// Calls every form of operators new and delete, and what containers make of them. Prints the
// replaced functions that ran for each: the same trace as with the C++ library's own operators, if
// all is well.
#include "operators.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

static char trace[1 << 20];
static std::size_t length;
void note(const char *name, std::size_t size, std::size_t align) {
    int n = std::snprintf(trace + length, sizeof trace - length, " %s %zu", name, size);
    length += n > 0 ? n : 0;
    if (align) {
        n = std::snprintf(trace + length, sizeof trace - length, " to %zu", align);
        length += n > 0 ? n : 0;
    }
    if (length >= sizeof trace) std::abort();
}
// Begins a line of the trace.
static void line(const char *what, std::size_t a, std::size_t b) {
    int n = std::snprintf(trace + length, sizeof trace - length, "\n%s %zu %zu:", what, a, b);
    length += n > 0 ? n : 0;
}

static const std::align_val_t ALIGN{64};
using std::nothrow;
// The compiler may leave out a pair of new and delete; it does not through these.
static void *(*volatile news[])(std::size_t) = {
    [](std::size_t n) { return ::operator new(n); },
    [](std::size_t n) { return ::operator new[](n); },
    [](std::size_t n) { return ::operator new(n, nothrow); },
    [](std::size_t n) { return ::operator new[](n, nothrow); },
    [](std::size_t n) { return ::operator new(n, ALIGN); },
    [](std::size_t n) { return ::operator new[](n, ALIGN); },
    [](std::size_t n) { return ::operator new(n, ALIGN, nothrow); },
    [](std::size_t n) { return ::operator new[](n, ALIGN, nothrow); },
};
static void (*volatile deletes[])(void *, std::size_t) = {
    [](void *p, std::size_t) { ::operator delete(p); },
    [](void *p, std::size_t) { ::operator delete[](p); },
    [](void *p, std::size_t n) { ::operator delete(p, n); },
    [](void *p, std::size_t n) { ::operator delete[](p, n); },
    [](void *p, std::size_t) { ::operator delete(p, nothrow); },
    [](void *p, std::size_t) { ::operator delete[](p, nothrow); },
    [](void *p, std::size_t) { ::operator delete(p, ALIGN); },
    [](void *p, std::size_t) { ::operator delete[](p, ALIGN); },
    [](void *p, std::size_t n) { ::operator delete(p, n, ALIGN); },
    [](void *p, std::size_t n) { ::operator delete[](p, n, ALIGN); },
    [](void *p, std::size_t) { ::operator delete(p, ALIGN, nothrow); },
    [](void *p, std::size_t) { ::operator delete[](p, ALIGN, nothrow); },
};

// Every form of delete on memory of every form of new that it goes with.
static void pairs(std::size_t size) {
    for (std::size_t i = 0; i < 8; i++) {
        for (std::size_t k = i / 4 * 6; k < i / 4 * 6 + 6; k++) {
            line("new and delete", i, k);
            void *p = news[i](size);
            if (!p || (i >= 4 && (std::uintptr_t)p % 64)) std::abort();
            std::memset(p, 1, size);
            deletes[k](p, size);
        }
    }
}
static void null_pointers() {
    for (std::size_t k = 0; k < 12; k++) {
        line("delete of a null pointer", k, 0);
        deletes[k](nullptr, 0);
    }
}
// A replaced new throws: through the forms that call it, past the frames between, to here.
struct Frame {
    int &unwound;
    ~Frame() { unwound++; }
};
static void refusals() {
    for (std::size_t i = 0; i < 8; i++) {
        int unwound = 0;
        line("refused", i, 0);
        try {
            Frame frame{unwound};
            void *p = news[i](REFUSED);
            note(p ? "not refused" : "null", 0, 0);
            deletes[i / 4 * 6](p, REFUSED);
        } catch (Refused &) {
            note("thrown", unwound, 0);
        }
        if (unwound != 1) std::abort();
    }
}

struct Base {
    long number = 1;
    virtual ~Base() {}
};
struct Derived : Base {
    std::string text = std::string(100, 'x');
};
struct alignas(128) Wide {
    char bytes[128];
    virtual ~Wide() {}
};
static void language() {
    line("objects", 0, 0);
    Base *volatile one = new Derived;
    delete one;
    Base *volatile some = new Base[3];
    delete[] some;
    Wide *volatile wide = new Wide, *volatile wides = new Wide[2];
    delete wide;
    delete[] wides;
    line("containers", 0, 0);
    std::vector<int> numbers;
    for (int i = 0; i < 100; i++) numbers.push_back(i);
    std::map<std::string, std::shared_ptr<Base>> table;
    for (int i = 0; i < 10; i++) table["a key that is too long for the object " + std::to_string(i)] = std::make_shared<Derived>();
    std::vector<Wide> aligned(5);
    auto owner = std::make_unique<Base[]>(4);
    std::string joined;
    for (auto &entry : table) joined += entry.first;
}

int main(int argc, char **argv) {
    setvbuf(stdout, nullptr, _IONBF, 0);
    for (std::size_t size : {std::size_t(1), std::size_t(100), std::size_t(5000), std::size_t(200000)}) pairs(size);
    null_pointers();
    refusals();
    language();
    // Often enough that sheaves become empty and full, here and in another thread.
    std::size_t first = length;
    pairs(100);
    std::size_t one = length - first;
    auto again = [&] {
        for (int i = 0; i < 40; i++) {
            std::size_t from = length;
            void *held[300];
            for (int form = 0; form < 8; form++) {
                length = from;
                for (auto &p : held) p = news[form](100);
                length = from;
                for (auto &p : held) deletes[form / 4 * 6 + i % 6](p, 100);
            }
            length = from;
            pairs(100);
            if (length - from != one || std::memcmp(trace + first, trace + from, one)) std::abort();
            length = from;
        }
    };
    again();
    std::thread(again).join();
    std::fwrite(trace, 1, length, stdout);
    std::puts("\nwell");
}
