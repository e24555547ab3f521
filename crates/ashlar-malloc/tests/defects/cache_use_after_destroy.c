/* An object is allocated from a destroyed cache. */
#include "cache.h"

int main(void) {
    struct kmem_cache *s = cache("victim");
    kmem_cache_destroy(s);
    return kmem_cache_alloc(s, GFP_KERNEL) != NULL ? HARM : 0;
    return 0;
}
