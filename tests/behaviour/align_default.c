/* Promise: malloc, calloc and realloc align for any object: 16 bytes for all of 16 and more, and
   for a smaller one its size's largest power of two. */
#include "behaviour.h"

int main(void) {
    for (size_t size = 1; size < 200000; size += size < 4000 ? 1 : 997) {
        size_t align = 16;
        while (align > size) align /= 2;
        void *p = malloc(size), *q = calloc(1, size), *r = realloc(malloc(3), size);
        MUST(p && q && r);
        MUST(((uintptr_t)p | (uintptr_t)q | (uintptr_t)r) % align == 0);
        free(p), free(q), free(r);
    }
    return 0;
}
