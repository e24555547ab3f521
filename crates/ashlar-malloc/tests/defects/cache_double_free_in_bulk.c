/* An object occurs twice in a bulk free. */
#include "cache.h"

int main(void) {
    struct kmem_cache *s = cache("victim");
    void *all[20];
    if (kmem_cache_alloc_bulk(s, GFP_KERNEL, 20, all) != 20) return 1;
    all[7] = all[3];
    kmem_cache_free_bulk(s, 20, all);
    kmem_cache_shrink(s);
    return 0;
}
