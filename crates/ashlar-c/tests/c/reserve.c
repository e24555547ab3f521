/* Memory ends: requests fail as they should, and a reserve does not. Run with little memory (ulimit
   -v). */
#include <ashlar.h>
#include <stdint.h>
#include "check.h"

enum { RESERVE = 400 };

/* Takes all memory there is, in ever smaller pieces, linked through their first word. */
static void *exhaust(struct kmem_cache *s)
{
    static const size_t sizes[] = { 1 << 20, 100000, 40000, 4096, 512, 64, 8 };
    void *all = NULL, *p;
    size_t i;

    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        errno = 0;
        while ((p = kmalloc(sizes[i], GFP_KERNEL)) != NULL) {
            *(void **)p = all;
            all = p;
        }
        CHECK(errno == ENOMEM);
    }
    while ((p = kmem_cache_alloc(s, GFP_KERNEL)) != NULL) {
        *(void **)p = all;
        all = p;
    }
    return all;
}

int main(void)
{
    struct kmem_cache *s = kmem_cache_create("reserve", 512, NULL, 0), *other;
    static void *objects[RESERVE];
    struct slab_sheaf *sheaf;
    void *all, *p = kmalloc(100, GFP_KERNEL);
    int i;

    CHECK(s != NULL && p != NULL);
    sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, RESERVE / 2);
    CHECK(sheaf != NULL && kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, RESERVE) == 0);
    memset(p, 0x62, 100);
    all = exhaust(s);

    REFUSED(kmalloc(64, GFP_KERNEL), ENOMEM);
    REFUSED(kzalloc(64, GFP_ATOMIC), ENOMEM);
    REFUSED(kcalloc(8, 8, GFP_KERNEL), ENOMEM);
    REFUSED(kmem_cache_alloc(s, GFP_KERNEL), ENOMEM);
    REFUSED(kmem_cache_zalloc(s, GFP_KERNEL), ENOMEM);
    REFUSED(krealloc(p, 10000, GFP_KERNEL), ENOMEM);
    REFUSED(krealloc(p, 10000, GFP_KERNEL | __GFP_ZERO), ENOMEM);
    CHECK(all_bytes(p, 100, 0x62));
    errno = 0;
    CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 10, objects) == 0 && errno == ENOMEM);
    REFUSED(kmem_cache_prefill_sheaf(s, GFP_KERNEL, 10), ENOMEM);
    CHECK(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 2 * RESERVE) == -ENOMEM);
    CHECK(kmem_cache_sheaf_size(sheaf) == RESERVE);
    REFUSED(kstrdup("text", GFP_KERNEL), ENOMEM);

    for (i = 0; i < RESERVE; i++) {
        objects[i] = kmem_cache_alloc_from_sheaf(s, GFP_ATOMIC, sheaf);
        CHECK(objects[i] != NULL);
        memset(objects[i], i % 251, 512);
    }
    for (i = 0; i < RESERVE; i++)
        CHECK(all_bytes(objects[i], 512, i % 251));
    REFUSED(kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf), ENOMEM);
    CHECK(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 1) == -ENOMEM);

    /* The program goes on. */
    while (all != NULL) {
        void *next = *(void **)all;

        kfree(all);
        all = next;
    }
    CHECK(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, RESERVE) == 0);
    kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
    kmem_cache_free_bulk(s, RESERVE, objects);
    kmem_cache_destroy(s);
    other = kmem_cache_create("afterwards", 512, NULL, 0);
    CHECK(other != NULL);
    kmem_cache_destroy(other);
    kfree(p);
    puts("well");
    return 0;
}
