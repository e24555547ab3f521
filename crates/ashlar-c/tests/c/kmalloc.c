/* The kmalloc family and the copies by ashlar.h: what each function promises. */
#include <ashlar.h>
#include <stdint.h>
#include "check.h"

static void sizes(void)
{
    size_t size;

    for (size = 1; size < 200000; size += size / 7 + 1) {
        void *p = kmalloc(size, GFP_KERNEL);
        size_t usable = ksize(p);

        CHECK(p != NULL && usable >= size && usable == kmalloc_size_roundup(size));
        CHECK((uintptr_t)p % ARCH_KMALLOC_MINALIGN == 0);
        memset(p, 0x5a, usable);
        kfree(p);
        p = kzalloc(size, GFP_KERNEL);
        CHECK(p != NULL && all_bytes(p, usable, 0));
        memset(p, 0xff, usable);
        kfree_sized(p, size);
        p = kmalloc(size, GFP_KERNEL | __GFP_ZERO);
        CHECK(p != NULL && all_bytes(p, usable, 0));
        kfree(p);
    }
    for (size = 8; size <= 4096; size *= 2) {
        void *p = kmalloc(size, GFP_KERNEL);

        CHECK((uintptr_t)p % size == 0);
        kfree(p);
    }
    CHECK(kmalloc_size_roundup(0) == 0);
}

static void nothing(void)
{
    CHECK(kmalloc(0, GFP_KERNEL) == ZERO_SIZE_PTR);
    CHECK(kzalloc(0, GFP_KERNEL) == ZERO_SIZE_PTR);
    CHECK(kcalloc(0, 8, GFP_KERNEL) == ZERO_SIZE_PTR);
    CHECK(ZERO_OR_NULL_PTR(kmalloc(0, GFP_KERNEL)) && ZERO_OR_NULL_PTR(NULL));
    CHECK(ksize(ZERO_SIZE_PTR) == 0 && ksize(NULL) == 0);
    kfree(NULL);
    kfree(ZERO_SIZE_PTR);
    kfree_sized(NULL, 8);
    kfree_sized(ZERO_SIZE_PTR, 0);
    kfree_sensitive(NULL);
    kfree_sensitive(ZERO_SIZE_PTR);
    kvfree(NULL);
    kvfree_sensitive(NULL, 0);
    kfree_bulk(0, NULL);
}

static void arrays(void)
{
    size_t half = SIZE_MAX / 2 + 1;
    char *p = (char *)kcalloc(100, 30, GFP_KERNEL);

    CHECK(p != NULL && all_bytes(p, 3000, 0));
    p = (char *)krealloc_array(p, 200, 30, GFP_KERNEL);
    CHECK(p != NULL && all_bytes(p, 3000, 0) && ksize(p) >= 6000);
    REFUSED(kmalloc_array(half, 2, GFP_KERNEL), ENOMEM);
    REFUSED(kcalloc(2, half, GFP_KERNEL), ENOMEM);
    REFUSED(krealloc_array(p, half, 2, GFP_KERNEL), ENOMEM);
    REFUSED(kmalloc(SIZE_MAX, GFP_KERNEL), ENOMEM);
    REFUSED(kzalloc(SIZE_MAX / 2, GFP_KERNEL), ENOMEM);
    REFUSED(krealloc(p, SIZE_MAX / 2, GFP_KERNEL), ENOMEM);
    REFUSED(krealloc(p, SIZE_MAX / 2, GFP_KERNEL | __GFP_ZERO), ENOMEM);
    CHECK(all_bytes(p, 3000, 0));
    kfree(p);
    p = (char *)kmalloc_array(10, 10, GFP_KERNEL);
    CHECK(p != NULL && ksize(p) >= 100);
    kfree(p);
}

static void resizing(void)
{
    char *p = (char *)krealloc(NULL, 20, GFP_KERNEL), *q;
    size_t size, old;

    CHECK(p != NULL);
    memset(p, 0x41, 20);
    /* In place as long as it fits. */
    q = (char *)krealloc(p, ksize(p), GFP_KERNEL);
    CHECK(q == p);
    CHECK(krealloc(p, 10, GFP_KERNEL) == p);
    p = (char *)krealloc(p, 5000, GFP_KERNEL);
    CHECK(p != NULL && all_bytes(p, 20, 0x41));
    p = (char *)krealloc(p, 40 << 20, GFP_KERNEL);
    CHECK(p != NULL && all_bytes(p, 20, 0x41));
    p = (char *)krealloc(p, 50 << 20, GFP_KERNEL);
    CHECK(p != NULL && all_bytes(p, 20, 0x41));
    CHECK(krealloc(p, 0, GFP_KERNEL) == ZERO_SIZE_PTR);
    p = (char *)krealloc(ZERO_SIZE_PTR, 30, GFP_KERNEL);
    CHECK(p != NULL && p != ZERO_SIZE_PTR);
    kfree(p);
    CHECK(krealloc(NULL, 0, GFP_KERNEL) == ZERO_SIZE_PTR);

    /* What is added is zero, also where it grows in place after it shrank. */
    p = NULL;
    old = 0;
    for (size = 1; size < 300000; size += size / 3 + 1) {
        p = (char *)krealloc(p, size, GFP_KERNEL | __GFP_ZERO);
        CHECK(p != NULL && all_bytes(p, old, 0x42) && all_bytes(p + old, size - old, 0));
        memset(p, 0x42, size);
        old = size / 2;
        p = (char *)krealloc(p, old, GFP_KERNEL | __GFP_ZERO);
        if (old == 0)
            p = NULL;
    }
    kfree(p);

    p = (char *)kvmalloc(100000, GFP_KERNEL);
    memset(p, 0x43, 100000);
    p = (char *)kvrealloc(p, 200000, GFP_KERNEL);
    CHECK(p != NULL && all_bytes(p, 100000, 0x43));
    kvfree_sensitive(p, 200000);
}

static void secrets(void)
{
    char *p = (char *)kmalloc(64, GFP_KERNEL), *q;

    memset(p, 0x53, 64);
    kfree_sensitive(p);
    q = (char *)kmalloc(64, GFP_KERNEL);
    /* The object that was freed last is the next, where there are sheaves; its middle may hold the
       allocator's link. */
    CHECK(q != p || (all_bytes(q, 32, 0) && all_bytes(q + 40, 24, 0)));
    kfree(q);
}

static void mixed(void)
{
    struct kmem_cache *s = kmem_cache_create("mixed", 32, NULL, 0);
    void *all[6];

    all[0] = kmem_cache_alloc(s, GFP_KERNEL);
    all[1] = kmalloc(10, GFP_KERNEL);
    all[2] = NULL;
    all[3] = kmem_cache_alloc(s, GFP_KERNEL);
    all[4] = kmalloc(1 << 20, GFP_KERNEL);
    all[5] = ZERO_SIZE_PTR;
    kfree_bulk(6, all);
    CHECK(kmem_cache_shrink(s) == 0);
    kmem_cache_destroy(s);
}

static void copies(void)
{
    char text[] = "slab and sheaf";
    char *p;

    p = (char *)kmemdup(text, 4, GFP_KERNEL);
    CHECK(p != NULL && memcmp(p, "slab", 4) == 0);
    kfree(p);
    CHECK(kmemdup(text, 0, GFP_KERNEL) == ZERO_SIZE_PTR);
    p = kmemdup_nul(text, 4, GFP_KERNEL);
    CHECK(p != NULL && strcmp(p, "slab") == 0);
    kfree(p);
    p = kstrdup(text, GFP_KERNEL);
    CHECK(p != NULL && strcmp(p, text) == 0);
    kfree(p);
    p = kstrndup(text, 4, GFP_KERNEL);
    CHECK(p != NULL && strcmp(p, "slab") == 0);
    kfree(p);
    p = kstrndup(text, 400, GFP_KERNEL);
    CHECK(p != NULL && strcmp(p, text) == 0);
    kfree(p);
    CHECK(kstrdup(NULL, GFP_KERNEL) == NULL && kstrndup(NULL, 3, GFP_KERNEL) == NULL);
    CHECK(kmemdup_nul(NULL, 3, GFP_KERNEL) == NULL);
}

int main(void)
{
    sizes();
    nothing();
    arrays();
    resizing();
    secrets();
    mixed();
    copies();
    puts("well");
    return 0;
}
