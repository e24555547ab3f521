/* A cache is destroyed twice. */
#include "cache.h"

int main(void) {
    struct kmem_cache *s = cache("victim");
    kmem_cache_destroy(s);
    kmem_cache_destroy(s);
    return 0;
}
