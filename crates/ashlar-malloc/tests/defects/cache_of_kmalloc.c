/* Memory of kmalloc is freed to a cache, which is shrunk. */
#include "cache.h"

int main(void) {
    struct kmem_cache *s = cache("victim");
    void *volatile a = kmalloc(64, GFP_KERNEL);
    kmem_cache_free(s, a);
    kmem_cache_shrink(s);
    return 0;
}
