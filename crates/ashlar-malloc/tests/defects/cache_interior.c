/* The address of the middle of an object is freed to its cache, which is shrunk. */
#include "cache.h"

int main(void) {
    char *volatile a;
    struct kmem_cache *s = cache("victim");
    a = take(s);
    kmem_cache_free(s, a + 8);
    kmem_cache_shrink(s);
    return 0;
}
