/* A local variable is freed to a cache, which is shrunk. */
#include "cache.h"

int main(void) {
    struct kmem_cache *s = cache("victim");
    long local[8] = {0};
    void *volatile a = local;
    kmem_cache_free(s, a);
    kmem_cache_shrink(s);
    return 0;
}
