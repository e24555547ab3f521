/* Caches and prefilled sheaves by ashlar.h: what each function promises. */
#include <ashlar.h>
#include <stdint.h>
#include "check.h"

enum { MANY = 3000 };
static void *objects[MANY];

static void one_size(void)
{
    struct kmem_cache *s = kmem_cache_create("plain", 100, NULL, 0);
    void *p, *q;

    CHECK(s != NULL && kmem_cache_size(s) == 100);
    p = kmem_cache_alloc(s, GFP_KERNEL);
    q = kmem_cache_alloc(s, GFP_ATOMIC);
    CHECK(p != NULL && q != NULL && p != q);
    CHECK((uintptr_t)p % ARCH_SLAB_MINALIGN == 0);
    memset(p, 0x55, 100);
    memset(q, 0xaa, 100);
    CHECK(all_bytes(p, 100, 0x55));
    kmem_cache_free(s, p);
    p = kmem_cache_zalloc(s, GFP_KERNEL);
    CHECK(p != NULL && all_bytes(p, 100, 0));
    memset(p, 0x55, 100);
    kmem_cache_free(s, p);
    p = kmem_cache_alloc(s, GFP_NOWAIT | __GFP_ZERO);
    CHECK(p != NULL && all_bytes(p, 100, 0));
    /* An object of a cache may be given to kfree. */
    kfree(p);
    kmem_cache_free(s, NULL);
    CHECK(kmem_cache_shrink(s) == 1);
    kmem_cache_free(s, q);
    CHECK(kmem_cache_shrink(s) == 0);
    kmem_cache_destroy(s);
    kmem_cache_destroy(NULL);
}

static void bulk(void)
{
    struct kmem_cache *s = kmem_cache_create("bulk", 48, NULL, 0);
    int i;

    CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, MANY, objects) == MANY);
    for (i = 0; i < MANY; i++)
        memset(objects[i], i % 256, 48);
    for (i = 0; i < MANY; i++)
        CHECK(all_bytes(objects[i], 48, i % 256));
    kmem_cache_free_bulk(s, MANY, objects);
    CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL | __GFP_ZERO, MANY, objects) == MANY);
    for (i = 0; i < MANY; i++)
        CHECK(all_bytes(objects[i], 48, 0));
    /* Without a cache: objects of any caches, large ones among them, and nothing. */
    kmem_cache_free(s, objects[7]);
    objects[7] = kmalloc(100000, GFP_KERNEL);
    kmem_cache_free(s, objects[8]);
    objects[8] = NULL;
    kmem_cache_free_bulk(NULL, MANY, objects);
    CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 0, objects) == 0);
    kmem_cache_free_bulk(s, 0, objects);
    errno = 0;
    CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, 1, NULL) == 0 && errno == EINVAL);
    CHECK(kmem_cache_shrink(s) == 0);
    kmem_cache_destroy(s);
}

static unsigned int constructed;

static void construct(void *object)
{
    memset(object, 0x77, 40);
    constructed++;
}

static void constructors(void)
{
    struct kmem_cache_args args = ASHLAR_CACHE_ARGS_INIT;
    struct kmem_cache *s;
    unsigned int before;
    int i, round;

    args.ctor = construct;
    s = kmem_cache_create("constructed", 40, &args, 0);
    for (round = 0; round < 3; round++) {
        for (i = 0; i < 100; i++) {
            objects[i] = kmem_cache_alloc(s, GFP_KERNEL);
            CHECK(all_bytes(objects[i], 40, 0x77));
        }
        before = constructed;
        for (i = 0; i < 100; i++)
            kmem_cache_free(s, objects[i]);
        CHECK(constructed == before);
    }
    kmem_cache_destroy(s);
}

static void arguments(void)
{
    struct kmem_cache_args args = ASHLAR_CACHE_ARGS_INIT;
    struct ashlar_cache_info info;
    struct kmem_cache *s;
    void *p;

    args.align = 256;
    args.sheaf_capacity = 7;
    args.use_min_partial = true;
    args.min_partial = 3;
    args.use_min_order = true;
    args.min_order = 2;
    args.use_max_order = true;
    args.max_order = 4;
    args.useroffset = 8;
    args.usersize = 16;
    s = kmem_cache_create("arguments", 24, &args, SLAB_NO_MERGE | SLAB_ACCOUNT);
    CHECK(s != NULL);
    ashlar_cache_info(s, &info);
    CHECK(strcmp(info.name, "arguments") == 0 && info.engine[0] != 0);
    CHECK(info.object_size == 24 && info.stride == 256 && info.align == 256);
    CHECK(info.sheaf_capacity == 7 && info.min_partial == 3 && info.order >= 2);
    CHECK(info.objects_per_slab == (4096u << info.order) / 256);
    CHECK(info.live == 0 && info.slabs == 0 && info.bytes == 0);
    p = kmem_cache_alloc(s, GFP_KERNEL);
    CHECK((uintptr_t)p % 256 == 0);
    ashlar_cache_info(s, &info);
    CHECK(info.live == 1 && info.slabs >= 1 && info.objects >= info.objects_per_slab && info.alloc_slab >= 1);
    CHECK(info.bytes == info.slabs * (4096u << info.order));
    kmem_cache_free(s, p);
    kmem_cache_destroy(s);

    memset(&args, 0, sizeof(args));
    args.engine = "slub-ll";
    s = kmem_cache_create("staged", 100, &args, 0);
    ashlar_cache_info(s, &info);
    CHECK(strcmp(info.engine, "slub-ll") == 0);
    p = kmem_cache_alloc(s, GFP_KERNEL);
    CHECK(p != NULL);
    kmem_cache_free(s, p);
    kmem_cache_destroy(s);

    memset(&args, 0, sizeof(args));
    args.use_min_order = true;
    args.use_max_order = true;
    s = kmem_cache_create("small slabs", 1024, &args, SLAB_HWCACHE_ALIGN);
    ashlar_cache_info(s, &info);
    CHECK(info.order == 0 && info.align == 64);
    kmem_cache_destroy(s);
}

static void sheaves(void)
{
    struct kmem_cache *s = kmem_cache_create("reserve", 200, NULL, 0);
    struct ashlar_cache_info info;
    struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(s, GFP_KERNEL, 5);
    int i;

    CHECK(sheaf != NULL && kmem_cache_sheaf_size(sheaf) == 5);
    for (i = 0; i < 5; i++) {
        objects[i] = kmem_cache_alloc_from_sheaf(s, GFP_NOWAIT | (i == 2 ? __GFP_ZERO : 0), sheaf);
        CHECK(objects[i] != NULL);
        CHECK(i != 2 || all_bytes(objects[i], 200, 0));
        memset(objects[i], 0x30 + i, 200);
    }
    for (i = 0; i < 5; i++)
        CHECK(all_bytes(objects[i], 200, 0x30 + i));
    CHECK(kmem_cache_sheaf_size(sheaf) == 0);
    REFUSED(kmem_cache_alloc_from_sheaf(s, GFP_KERNEL, sheaf), ENOMEM);
    /* Larger than it was made for: it moves. */
    CHECK(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 700) == 0);
    CHECK(kmem_cache_sheaf_size(sheaf) == 700);
    CHECK(kmem_cache_refill_sheaf(s, GFP_KERNEL, &sheaf, 10) == 0);
    CHECK(kmem_cache_sheaf_size(sheaf) == 700);
    ashlar_cache_info(s, &info);
    CHECK(info.live == 705);
    for (i = 0; i < 5; i++)
        kmem_cache_free(s, objects[i]);
    kmem_cache_return_sheaf(s, GFP_KERNEL, sheaf);
    kmem_cache_return_sheaf(s, GFP_KERNEL, NULL);
    CHECK(kmem_cache_sheaf_size(NULL) == 0);
    ashlar_cache_info(s, &info);
    CHECK(info.live == 0);
    CHECK(kmem_cache_shrink(s) == 0);
    kmem_cache_destroy(s);
}

struct seen {
    int mine, kmalloc_64;
};

static void look(const struct ashlar_cache_info *info, void *arg)
{
    struct seen *seen = (struct seen *)arg;

    if (strcmp(info->name, "mine") == 0)
        seen->mine += info->object_size == 72;
    if (strcmp(info->name, "kmalloc-64") == 0)
        seen->kmalloc_64 += info->object_size == 64;
}

static void figures(void)
{
    struct kmem_cache *s = kmem_cache_create("mine", 72, NULL, 0);
    struct seen seen = { 0, 0 };
    char message[100];

    ashlar_for_each_cache(look, &seen);
    CHECK(seen.mine == 1 && seen.kmalloc_64 == 1);
    ashlar_for_each_cache(NULL, NULL);
    kmem_cache_destroy(s);
    seen.mine = 0;
    ashlar_for_each_cache(look, &seen);
    CHECK(seen.mine == 0);

    CHECK(ashlar_check_options("percpu=lock,sheaf=60", NULL, 0) == 0);
    CHECK(ashlar_check_options("sheaf=600", message, sizeof(message)) == -EINVAL);
    CHECK(strstr(message, "sheaf=600") != NULL && strstr(message, "sheaf=254") != NULL);
    CHECK(ashlar_check_options("sheaf=600", message, 9) == -EINVAL && strcmp(message, "option `") == 0);
    CHECK(ashlar_check_options(NULL, message, sizeof(message)) == -EINVAL && message[0] != 0);
    CHECK(ashlar_configure("sheaf=60", message, sizeof(message)) == -EBUSY);
    CHECK(strstr(message, "before the first allocation") != NULL);
    CHECK(strcmp(ashlar_mode(), "rseq") == 0 || strcmp(ashlar_mode(), "lock") == 0);
    CHECK(strchr(ashlar_version(), '.') != NULL);
}

struct names {
    int count;
    const char *name, *cache;
    size_t object_size;
};

static void look_at_alias(const struct ashlar_alias_info *alias, void *arg)
{
    struct names *names = (struct names *)arg;

    names->count += strcmp(alias->name, names->name) == 0 && strcmp(alias->cache, names->cache) == 0 &&
                    alias->object_size == names->object_size;
}

static int is_alias(const char *name, const char *cache, size_t object_size)
{
    struct names names = { 0, name, cache, object_size };

    ashlar_for_each_alias(look_at_alias, &names);
    return names.count;
}

static unsigned long references(struct kmem_cache *s)
{
    struct ashlar_cache_info info;

    ashlar_cache_info(s, &info);
    return info.refcount;
}

static void merging(void)
{
    static const slab_flags_t never[] = {
        SLAB_CONSISTENCY_CHECKS, SLAB_RED_ZONE, SLAB_POISON, SLAB_STORE_USER, SLAB_TRACE, SLAB_NOLEAKTRACE,
        SLAB_FAILSLAB, SLAB_KASAN, SLAB_NO_MERGE, SLAB_RECLAIM_ACCOUNT, SLAB_CACHE_DMA, SLAB_ACCOUNT,
    };
    struct kmem_cache *s = kmem_cache_create("merged-one", 1000, NULL, 0);
    struct kmem_cache *t = kmem_cache_create("merged-two", 993, NULL, SLAB_NO_USER_FLAGS), *u;
    struct kmem_cache_args args = ASHLAR_CACHE_ARGS_INIT;
    struct ashlar_cache_info info;
    unsigned int i;
    void *p;

    CHECK(is_alias("merged-two", "merged-one", 993) == 1);
    CHECK(references(s) == 2 && references(t) == 2 && kmem_cache_size(t) == 1000);
    ashlar_cache_info(t, &info);
    CHECK(strcmp(info.name, "merged-two") == 0);
    p = kmem_cache_alloc(t, GFP_KERNEL);
    kmem_cache_destroy(t);
    CHECK(is_alias("merged-two", "merged-one", 993) == 0 && references(s) == 1);
    /* The objects of a name that is gone are those of the others. */
    kmem_cache_free(s, p);
    for (i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        u = kmem_cache_create("merged-never", 1000, NULL, never[i]);
        CHECK(u != NULL && references(u) == 1 && references(s) == 1);
        kmem_cache_destroy(u);
    }
    args.usersize = 8;
    u = kmem_cache_create("merged-copied", 1000, &args, 0);
    CHECK(u != NULL && references(u) == 1 && references(s) == 1);
    kmem_cache_destroy(u);
    ashlar_for_each_alias(NULL, NULL);
    kmem_cache_destroy(s);
}

static void tunables(void)
{
    struct kmem_cache *s = kmem_cache_create("tuned", 200, NULL, SLAB_NO_MERGE);
    struct kmem_cache_args args = ASHLAR_CACHE_ARGS_INIT;
    struct ashlar_cache_info info;
    size_t value = 77;

    CHECK(ashlar_set_tunable(s, "min_partial", 9) == 0);
    CHECK(ashlar_tunable(s, "min_partial", &value) == 0 && value == 9);
    /* On the engine of the process, which may be any. */
    if (ashlar_tunable(s, "sheaf_capacity", &value) == 0) {
        CHECK(ashlar_set_tunable(s, "sheaf_capacity", 5) == 0);
        ashlar_cache_info(s, &info);
        CHECK(info.sheaf_capacity == 5);
    }
    kmem_cache_destroy(s);
    args.engine = "slub-bulk";
    args.use_cpu_partial = args.use_min_partial = true;
    args.cpu_partial = 256;
    args.min_partial = 9;
    s = kmem_cache_create("tuned", 256, &args, 0);
    CHECK(s != NULL && ashlar_tunable(s, "cpu_partial", &value) == 0 && value == 256);
    CHECK(ashlar_tunable(s, "limit", &value) == -EINVAL && value == 256);
    CHECK(ashlar_tunable(s, "remote_node_defrag_ratio", &value) == 0 && value == 0);
    kmem_cache_destroy(s);
    memset(&args, 0, sizeof(args));
    args.engine = "slub-bulk";
    args.use_remote_node_defrag_ratio = true;
    args.remote_node_defrag_ratio = 35;
    s = kmem_cache_create("tuned", 256, &args, 0);
    CHECK(s != NULL && ashlar_tunable(s, "remote_node_defrag_ratio", &value) == 0 && value == 35);
    CHECK(ashlar_set_tunable(s, "remote_node_defrag_ratio", 100) == 0);
    CHECK(ashlar_tunable(s, "remote_node_defrag_ratio", &value) == 0 && value == 100);
    kmem_cache_destroy(s);
}

static void memory_goes_back(void)
{
    struct kmem_cache *s = kmem_cache_create("gone", 1000, NULL, 0);

    CHECK(kmem_cache_alloc_bulk(s, GFP_KERNEL, MANY, objects) == MANY);
    kmem_cache_free_bulk(s, MANY, objects);
    CHECK(ashlar_reap() >= (size_t)MANY * 1000 / 4096);
    CHECK(ashlar_start_reaper() == 0 && ashlar_start_reaper() == 0);
    ashlar_stop_reaper();
    ashlar_stop_reaper();
    kmem_cache_destroy(s);
}

int main(void)
{
    one_size();
    bulk();
    constructors();
    arguments();
    sheaves();
    figures();
    merging();
    tunables();
    memory_goes_back();
    puts("well");
    return 0;
}
