/* Memory of a NUMA node, on a machine of four (fake) nodes: each is asked for from wherever the
   program runs. */
#include <ashlar.h>
#include "check.h"

int main(void)
{
    struct kmem_cache *s = kmem_cache_create("nodes", 100, NULL, 0);
    void *objects[4][100], *larges[4];
    int node, i;

    for (node = 0; node < 4; node++) {
        for (i = 0; i < 100; i++) {
            gfp_t flags = GFP_KERNEL | (i % 2 ? __GFP_THISNODE : 0) | (i % 3 ? 0 : __GFP_ZERO);

            objects[node][i] = i < 50 ? kmem_cache_alloc_node(s, flags, node) : kmalloc_node(100, flags, node);
            CHECK(objects[node][i] != NULL);
            CHECK(i % 3 != 0 || all_bytes(objects[node][i], 100, 0));
            memset(objects[node][i], node * 16 + i % 16, 100);
        }
        larges[node] = kmalloc_node(1 << 20, GFP_KERNEL | __GFP_THISNODE | __GFP_ZERO, node);
        CHECK(larges[node] != NULL && all_bytes(larges[node], 1 << 20, 0));
        memset(larges[node], 0xee, 1 << 20);
        REFUSED(kmalloc_node(64 << 20, GFP_KERNEL | __GFP_THISNODE, node), ENOMEM);
    }
    for (node = 0; node < 4; node++) {
        for (i = 0; i < 100; i++) {
            CHECK(all_bytes(objects[node][i], 100, node * 16 + i % 16));
            kfree(objects[node][i]);
        }
        kfree(larges[node]);
    }
    CHECK(kmem_cache_shrink(s) == 0);
    kmem_cache_destroy(s);
    puts("well");
    return 0;
}
