// One replaced operator, chosen by -DREPLACED=0 to 7. Its memory is malloc's, so any subset of the
// eight goes together with the default forms.
#include "operators.h"
#include <cstdlib>

static void *memory(std::size_t size) {
    if (size == REFUSED) throw Refused();
    void *p = std::malloc(size ? size : 1);
    if (!p) throw std::bad_alloc();
    return p;
}
static void *memory(std::size_t size, std::align_val_t align) {
    if (size == REFUSED) throw Refused();
    std::size_t to = (std::size_t)align;
    void *p = std::aligned_alloc(to, (size + to) / to * to);
    if (!p) throw std::bad_alloc();
    return p;
}

#if REPLACED == 0
void *operator new(std::size_t size) {
    note("new", size, 0);
    return memory(size);
}
#elif REPLACED == 1
void *operator new[](std::size_t size) {
    note("new[]", size, 0);
    return memory(size);
}
#elif REPLACED == 2
void *operator new(std::size_t size, std::align_val_t align) {
    note("aligned new", size, (std::size_t)align);
    return memory(size, align);
}
#elif REPLACED == 3
void *operator new[](std::size_t size, std::align_val_t align) {
    note("aligned new[]", size, (std::size_t)align);
    return memory(size, align);
}
#elif REPLACED == 4
void operator delete(void *p) noexcept {
    note("delete", p != nullptr, 0);
    std::free(p);
}
#elif REPLACED == 5
void operator delete[](void *p) noexcept {
    note("delete[]", p != nullptr, 0);
    std::free(p);
}
#elif REPLACED == 6
void operator delete(void *p, std::align_val_t align) noexcept {
    note("aligned delete", p != nullptr, (std::size_t)align);
    std::free(p);
}
#elif REPLACED == 7
void operator delete[](void *p, std::align_val_t align) noexcept {
    note("aligned delete[]", p != nullptr, (std::size_t)align);
    std::free(p);
}
#endif
