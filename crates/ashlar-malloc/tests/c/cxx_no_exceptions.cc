// Built without exceptions: plain and nothrow forms.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>

struct alignas(256) Wide {
    char bytes[256];
};

int main() {
    for (int i = 1; i < 3000; i++) {
        int *p = new int[i];
        p[i - 1] = i;
        Wide *w = new (std::nothrow) Wide;
        if (!w || (uintptr_t)w % 256) return 1;
        delete w;
        delete[] p;
    }
    puts("well");
}
