// Counts the machine instructions of one call of each form of new and delete, by the trap flag.
// Prints a line for each. For one thread, with the options percpu=emulate,reaper=off.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>

static volatile long steps;
static void on_trap(int) { steps = steps + 1; }
// The same text around each call, so that differences are those of what is called.
static void step() { asm volatile("pushfq\n\torq $0x100, (%rsp)\n\tpopfq"); }
static void run() { asm volatile("pushfq\n\tandq $-0x101, (%rsp)\n\tpopfq"); }
__attribute__((noinline)) static long counted(void *(*volatile call)(void *, std::size_t, std::size_t), void *p, void **result) {
    steps = 0;
    step();
    *result = call(p, 64, 0);
    run();
    return steps;
}
template <class F> static auto as_call(F f) { return reinterpret_cast<void *(*)(void *, std::size_t, std::size_t)>(f); }
static const std::align_val_t ALIGN{16};

int main() {
    using std::size_t;
    using N = const std::nothrow_t &;
    using A = std::align_val_t;
    signal(SIGTRAP, on_trap);
    // Sheaves half full, so that nothing below is a slow path.
    void *warm[20];
    for (auto &p : warm) p = std::malloc(64);
    for (auto p : warm) std::free(p);
    struct {
        const char *name;
        void *(*call)(void *, size_t, size_t);
    } frees[] = {
        {"free", as_call(&std::free)},
        {"delete", as_call((void (*)(void *))&::operator delete)},
        {"delete[]", as_call((void (*)(void *))&::operator delete[])},
        {"delete size", as_call((void (*)(void *, size_t))&::operator delete)},
        {"delete[] size", as_call((void (*)(void *, size_t))&::operator delete[])},
        {"delete nothrow", as_call((void (*)(void *, N))&::operator delete)},
        {"delete[] nothrow", as_call((void (*)(void *, N))&::operator delete[])},
        {"delete align", as_call((void (*)(void *, A))&::operator delete)},
        {"delete[] align", as_call((void (*)(void *, A))&::operator delete[])},
        {"delete size align", as_call((void (*)(void *, size_t, A))&::operator delete)},
        {"delete[] size align", as_call((void (*)(void *, size_t, A))&::operator delete[])},
        {"delete align nothrow", as_call((void (*)(void *, A, N))&::operator delete)},
        {"delete[] align nothrow", as_call((void (*)(void *, A, N))&::operator delete[])},
    };
    struct {
        const char *name;
        void *(*call)(void *, size_t, size_t);
    } allocs[] = {
        {"malloc", as_call(&std::malloc)},
        {"new", as_call((void *(*)(size_t))&::operator new)},
        {"new[]", as_call((void *(*)(size_t))&::operator new[])},
    };
    void *p, *none;
    for (auto &form : allocs) {
        long count = counted(form.call, (void *)64, &p);
        std::printf("%s: %ld\n", form.name, count);
        std::free(p);
    }
    for (auto &form : frees) {
        p = std::malloc(64);
        long count = counted(form.call, p, &none);
        std::printf("%s: %ld\n", form.name, count);
    }
}
