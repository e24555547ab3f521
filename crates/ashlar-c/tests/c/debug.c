/*
 * The kernel's tests of slab debugging (lib/tests/slub_kunit.c), written anew from their
 * description. Each does damage, and a validation counts as many errors as in the kernel. Runs with
 * on_error=quarantine.
 */
#include <ashlar.h>
#include "check.h"

static struct kmem_cache *make(unsigned int flags)
{
    struct kmem_cache *s = kmem_cache_create("TestSlub", 64, NULL, flags | SLAB_NO_USER_FLAGS);

    CHECK(s != NULL);
    return s;
}

static void clobber_zone(void)
{
    struct kmem_cache *s = make(SLAB_RED_ZONE);
    unsigned char *p = (unsigned char *)kmem_cache_alloc(s, GFP_KERNEL);

    p[64] = 0x12;
    CHECK(validate_slab_cache(s) == 2);
    kmem_cache_free(s, p);
    kmem_cache_destroy(s);
}

static void next_pointer(void)
{
    struct kmem_cache *s = make(SLAB_POISON);
    unsigned char *p = (unsigned char *)kmem_cache_alloc(s, GFP_KERNEL);
    unsigned char *link = p + 64;
    unsigned char before[8];

    kmem_cache_free(s, p);
    memcpy(before, link, 8);
    link[0] = (unsigned char)~link[0];
    CHECK(validate_slab_cache(s) == 3);
    memcpy(link, before, 8);
    CHECK(validate_slab_cache(s) == 2);
    CHECK(validate_slab_cache(s) == 0);
    kmem_cache_destroy(s);
}

static void write_after_free(size_t at)
{
    struct kmem_cache *s = make(SLAB_POISON);
    unsigned char *p = (unsigned char *)kmem_cache_alloc(s, GFP_KERNEL);

    kmem_cache_free(s, p);
    p[at] = 0x78;
    CHECK(validate_slab_cache(s) == 2);
    kmem_cache_destroy(s);
}

static void clobber_redzone_free(void)
{
    struct kmem_cache *s = make(SLAB_RED_ZONE);
    unsigned char *p = (unsigned char *)kmem_cache_alloc(s, GFP_KERNEL);

    kmem_cache_free(s, p);
    p[64] = 0xab;
    CHECK(validate_slab_cache(s) == 2);
    kmem_cache_destroy(s);
}

static void leak_destroy(void)
{
    struct kmem_cache *s = make(SLAB_RED_ZONE | SLAB_STORE_USER);
    void *p = kmem_cache_alloc(s, GFP_KERNEL);

    errno = 0;
    kmem_cache_destroy(s);
    CHECK(errno == EBUSY);
    CHECK(validate_slab_cache(s) == 0);
    kmem_cache_free(s, p);
    kmem_cache_destroy(s);
}

static void bulk(void)
{
    struct kmem_cache *s = make(SLAB_CONSISTENCY_CHECKS | SLAB_RED_ZONE | SLAB_POISON | SLAB_STORE_USER);
    void *objects[100];
    int i;

    CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 100, objects) == 100);
    for (i = 0; i < 100; i++)
        memset(objects[i], i, 64);
    CHECK(validate_slab_cache(s) == 0);
    kmem_cache_free_bulk(s, 100, objects);
    CHECK(validate_slab_cache(s) == 0);
    kmem_cache_destroy(s);
}

static void only_debugged_caches(void)
{
    struct kmem_cache *s = make(0);

    errno = 0;
    CHECK(validate_slab_cache(s) == -1);
    CHECK(errno == EINVAL);
    kmem_cache_destroy(s);
}

struct told {
    long stacks, objects;
};

static void add(const struct ashlar_trace *trace, void *told)
{
    struct told *sum = (struct told *)told;

    CHECK(trace->count > 0 && trace->age_min <= trace->age_max && trace->depth <= ASHLAR_TRACE_FRAMES);
    sum->stacks++;
    sum->objects += trace->count;
}

static void traces(void)
{
    struct kmem_cache *s = make(SLAB_STORE_USER), *plain = make(0);
    struct told told = {0, 0};
    void *objects[10];
    int i;

    CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 10, objects) == 10);
    CHECK(ashlar_alloc_traces(s, add, &told) == told.stacks && told.stacks > 0 && told.objects == 10);
    CHECK(ashlar_free_traces(s, NULL, NULL) == 0);
    for (i = 0; i < 10; i++)
        kmem_cache_free(s, objects[i]);
    told.stacks = told.objects = 0;
    CHECK(ashlar_free_traces(s, add, &told) == told.stacks && told.objects == 10);
    errno = 0;
    CHECK(ashlar_alloc_traces(plain, add, &told) == -1 && errno == EINVAL);
    CHECK(kmem_dump_obj(objects[0]) && !kmem_dump_obj(&told));
    kmem_cache_destroy(plain);
    kmem_cache_destroy(s);
}

int main(void)
{
    clobber_zone();
    next_pointer();
    write_after_free(0);
    write_after_free(50);
    clobber_redzone_free();
    leak_destroy();
    bulk();
    traces();
    only_debugged_caches();
    puts("well");
    return 0;
}
