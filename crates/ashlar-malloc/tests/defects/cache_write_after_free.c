/* An object of a cache is written after its free, and objects are allocated. */
#include "cache.h"

int main(void) {
    char *volatile a;
    struct kmem_cache *s = cache("victim");
    a = take(s);
    kmem_cache_free(s, a);
    memset(a, 0x41, 64);
    for (int i = 0; i < 100; i++) take(s);
    return 0;
}
