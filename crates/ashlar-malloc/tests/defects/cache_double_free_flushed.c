/* An object of a cache is freed twice, others between, and the cache is shrunk. */
#include "cache.h"

int main(void) {
    char *volatile a;
    struct kmem_cache *s = cache("victim");
    char *volatile b = take(s);
    a = take(s);
    kmem_cache_free(s, a);
    kmem_cache_free(s, b);
    kmem_cache_free(s, a);
    kmem_cache_shrink(s);
    return 0;
}
