// Replaces operator new(size_t) and operator delete(void*) and no other form, with memory that is
// not malloc's: all other forms have to come here. As a program, and as a library with a function
// `plugin`.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

alignas(16) static char memory[8 << 20];
static std::size_t used;
static long live;
static bool mine(void *p) { return p >= memory && p < memory + sizeof memory; }

void *operator new(std::size_t size) {
    if (size > sizeof memory - used) throw std::bad_alloc();
    void *p = memory + used;
    used += (size + 15) / 16 * 16;
    live++;
    return p;
}
void operator delete(void *p) noexcept {
    if (!p) return;
    if (!mine(p)) std::abort();
    std::memset(p, 0xdd, 1);
    live--;
}

struct Base {
    long number = 1;
    virtual ~Base() {}
};
struct Derived : Base {
    std::string text = std::string(100, 'x');
};

static bool all_forms() {
    using std::nothrow;
    long before = live;
    std::size_t in_use = used;
    for (int i = 0; i < 1000; i++) {
        ::operator delete(::operator new(10), (std::size_t)10);
        ::operator delete(::operator new(10, nothrow), nothrow);
        ::operator delete[](::operator new[](10));
        ::operator delete[](::operator new[](10), (std::size_t)10);
        ::operator delete[](::operator new[](10, nothrow), nothrow);
        Base *volatile one = new Derived;
        delete one;
        Base *volatile some = new Derived[3];
        delete[] static_cast<Derived *>(some);
    }
    {
        std::map<std::string, std::shared_ptr<Base>> table;
        for (int i = 0; i < 100; i++) table["a key that is too long for the object " + std::to_string(i)] = std::make_shared<Derived>();
        std::vector<std::string> copies;
        for (auto &entry : table) copies.push_back(entry.first);
        auto owner = std::make_unique<Base[]>(7);
    }
    // More than there is: new[] and the nothrow forms pass on what the replaced form throws.
    int thrown = 0;
    try {
        std::string unwound(100, 'u');
        volatile std::size_t many = sizeof memory + 1;
        delete[] new char[many];
    } catch (std::bad_alloc &) {
        thrown++;
    }
    if (::operator new[](sizeof memory, nothrow) || ::operator new(sizeof memory, nothrow)) return false;
    // Forms for alignments are not replaced, and have memory of malloc's.
    void *aligned = ::operator new[](100, std::align_val_t(64));
    if (mine(aligned)) return false;
    ::operator delete[](aligned, (std::size_t)100, std::align_val_t(64));
    return thrown == 1 && live == before && used > in_use;
}

extern "C" void *plugin(void *p) {
    {
        std::map<int, std::string> table;
        for (int i = 0; i < 20; i++) table[i] = std::string(100, 'p');
        Base *volatile one = new Derived;
        delete one;
        delete[] new std::string[3];
    }
    std::free(p);
    used = 0;
    return std::malloc(100);
}

int main() {
    if (!all_forms()) return 1;
    std::puts("well");
}
