/* An object of a cache is freed twice. */
#include "cache.h"

int main(void) {
    char *volatile a;
    struct kmem_cache *s = cache("victim");
    a = take(s);
    kmem_cache_free(s, a);
    kmem_cache_free(s, a);
    return 0;
}
