/* The free link of an object is overwritten, and objects are allocated. */
#include "cache.h"

int main(void) {
    char *volatile a;
    struct kmem_cache *s = cache("victim");
    take(s);
    a = take(s);
    kmem_cache_free(s, a);
    kmem_cache_shrink(s);
    memset(a, 0x41, 72);
    for (int i = 0; i < 200; i++) take(s);
    return 0;
}
