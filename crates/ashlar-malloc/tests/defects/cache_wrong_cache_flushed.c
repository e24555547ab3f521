/* An object is freed to another cache, which is shrunk. */
#include "cache.h"

int main(void) {
    char *volatile a;
    struct kmem_cache *s = cache("victim"), *other = cache("other");
    a = take(s);
    kmem_cache_free(other, a);
    kmem_cache_shrink(other);
    return 0;
}
