/* Promise: where a program replaces only the plain operator new and delete, all other forms call
   them ([new.delete]). */
/* flags: -std=c++17 */
#include "behaviour.h"
#include <new>
#include <string>

static int news, deletes;
void *operator new(size_t size) {
    news++;
    char *p = (char *)malloc(size + 64);
    if (p == nullptr) throw std::bad_alloc();
    return p + 64; /* free of this pointer would be invalid */
}
void operator delete(void *p) noexcept {
    deletes++;
    if (p) free((char *)p - 64);
}
int main() {
    for (int i = 0; i < 100; i++) {
        delete new int;
        delete[] new int[20];
        int *quiet = new (std::nothrow) int;
        MUST(quiet != nullptr);
        delete quiet;
        int *quiet_many = new (std::nothrow) int[10];
        ::operator delete[](quiet_many, std::nothrow);
        ::operator delete(::operator new(50), 50);
        ::operator delete[](::operator new[](50), 50);
        std::string text(1000, 'x'); /* from libstdc++ itself */
        text += text;
    }
    MUST(news >= 700 && deletes == news);
    return 0;
}
