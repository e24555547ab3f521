/* A byte behind an object of a cache is written, which is then freed. */
#include "cache.h"

int main(void) {
    char *volatile a;
    struct kmem_cache *s = cache("victim");
    a = take(s);
    a[64] = 1;
    kmem_cache_free(s, a);
    kmem_cache_shrink(s);
    return 0;
}
