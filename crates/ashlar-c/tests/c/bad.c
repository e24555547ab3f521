/* Bad input, one kind for each word: the call, then what it returned and errno. The test reads
   standard error. */
#include <ashlar.h>
#include <stdint.h>
#include "check.h"

static void construct(void *object)
{
    memset(object, 0, 8);
}

static void said(const void *result)
{
    const char *why = errno == EINVAL ? "EINVAL" : errno == ENOMEM ? "ENOMEM" : errno == EBUSY ? "EBUSY" : "?";

    printf("%s %s\n", result == NULL ? "NULL" : "something", why);
}

static void creation(const char *kind)
{
    struct kmem_cache_args args = ASHLAR_CACHE_ARGS_INIT;
    const char *name = "cache", *long_name = "a name of more than forty-seven bytes, which is one too many";
    unsigned int size = 64;
    slab_flags_t flags = 0;

    if (strcmp(kind, "name-null") == 0)
        name = NULL;
    else if (strcmp(kind, "name-empty") == 0)
        name = "";
    else if (strcmp(kind, "name-long") == 0)
        name = long_name;
    else if (strcmp(kind, "name-bytes") == 0)
        name = "\xff";
    else if (strcmp(kind, "size-0") == 0)
        size = 0;
    else if (strcmp(kind, "size-large") == 0)
        size = (2u << 20) + 1;
    else if (strcmp(kind, "align") == 0)
        args.align = 24;
    else if (strcmp(kind, "flags") == 0)
        flags = 1u << 15;
    else if (strcmp(kind, "usercopy") == 0)
        args.useroffset = args.usersize = 40;
    else if (strcmp(kind, "usercopy-offset") == 0)
        args.useroffset = 8;
    else if (strcmp(kind, "sheaf") == 0)
        args.sheaf_capacity = 255;
    else if (strcmp(kind, "max-order") == 0)
        args.use_max_order = true, args.max_order = 10;
    else if (strcmp(kind, "min-order") == 0)
        args.use_min_order = true, args.min_order = 300;
    else if (strcmp(kind, "defrag") == 0)
        args.use_remote_node_defrag_ratio = true, args.remote_node_defrag_ratio = 101;
    else if (strcmp(kind, "orders") == 0)
        args.use_min_order = true, args.min_order = 5, args.use_max_order = true, args.max_order = 4;
    else if (strcmp(kind, "engine") == 0)
        args.engine = "slab+";
    else if (strcmp(kind, "panic") == 0)
        size = 0, flags = SLAB_PANIC;
    said(kmem_cache_create(name, size, &args, flags));
}

static void after_destruction(const char *kind)
{
    struct kmem_cache *gone = kmem_cache_create("gone", 64, NULL, SLAB_NO_MERGE);
    void *object[20];

    memset(object, 0, sizeof object);
    kmem_cache_destroy(gone);
    if (strcmp(kind, "alloc") == 0)
        kmem_cache_alloc(gone, GFP_KERNEL);
    else if (strcmp(kind, "zalloc") == 0)
        kmem_cache_zalloc(gone, GFP_KERNEL);
    else if (strcmp(kind, "free") == 0)
        kmem_cache_free(gone, kmalloc(64, GFP_KERNEL));
    else if (strcmp(kind, "alloc-bulk") == 0)
        kmem_cache_alloc_bulk(gone, GFP_KERNEL, 20, object);
    else if (strcmp(kind, "free-bulk") == 0)
        kmem_cache_free_bulk(gone, 20, object);
    else if (strcmp(kind, "destroy") == 0)
        kmem_cache_destroy(gone);
}

int main(int argc, char **argv)
{
    struct kmem_cache_args args = ASHLAR_CACHE_ARGS_INIT;
    const char *kind = argc > 1 ? argv[1] : "";
    struct kmem_cache *plain, *constructed;
    struct slab_sheaf *sheaf, *none = NULL;
    void *p;

    if (strncmp(kind, "create-", 7) == 0) {
        creation(kind + 7);
        return 0;
    }
    plain = kmem_cache_create("plain", 64, NULL, 0);
    args.ctor = construct;
    constructed = kmem_cache_create("constructed", 64, &args, 0);
    sheaf = kmem_cache_prefill_sheaf(plain, GFP_KERNEL, 3);
    p = kmalloc(100, GFP_KERNEL);
    memset(p, 0x61, 100);
    CHECK(plain != NULL && constructed != NULL && sheaf != NULL && p != NULL);
    errno = 0;
    if (strcmp(kind, "gfp-kmalloc") == 0)
        said(kmalloc(8, 1u << 1));
    else if (strcmp(kind, "gfp-alloc") == 0)
        said(kmem_cache_alloc(plain, GFP_KERNEL | 1u << 30));
    else if (strcmp(kind, "gfp-bulk") == 0)
        said(kmem_cache_alloc_bulk(plain, 1u << 2, 1, &p) == 0 ? NULL : p);
    else if (strcmp(kind, "gfp-krealloc") == 0)
        said(krealloc(p, 10, 1u << 2));
    else if (strcmp(kind, "gfp-sheaf") == 0)
        said(kmem_cache_alloc_from_sheaf(plain, 1u << 2, sheaf));
    else if (strcmp(kind, "zero-constructed") == 0)
        said(kmem_cache_zalloc(constructed, GFP_KERNEL));
    else if (strcmp(kind, "zero-constructed-bulk") == 0)
        said(kmem_cache_alloc_bulk(constructed, GFP_KERNEL | __GFP_ZERO, 1, &p) == 0 ? NULL : p);
    else if (strcmp(kind, "zero-constructed-sheaf") == 0) {
        sheaf = kmem_cache_prefill_sheaf(constructed, GFP_KERNEL, 3);
        errno = 0;
        said(kmem_cache_alloc_from_sheaf(constructed, GFP_KERNEL | __GFP_ZERO, sheaf));
    } else if (strcmp(kind, "prefill-0") == 0)
        said(kmem_cache_prefill_sheaf(plain, GFP_KERNEL, 0));
    else if (strcmp(kind, "prefill-zero") == 0)
        said(kmem_cache_prefill_sheaf(plain, GFP_KERNEL | __GFP_ZERO, 4));
    else if (strcmp(kind, "tunable-name") == 0)
        puts(ashlar_set_tunable(plain, "order", 1) == -EINVAL ? "-EINVAL" : "?");
    else if (strcmp(kind, "tunable-range") == 0)
        puts(ashlar_set_tunable(plain, "remote_node_defrag_ratio", 101) == -EINVAL ? "-EINVAL" : "?");
    else if (strcmp(kind, "tunable-engine") == 0)
        puts(ashlar_set_tunable(plain, "cpu_partial", 1) == -EINVAL ? "-EINVAL" : "?");
    else if (strcmp(kind, "sheaf-of-another") == 0)
        said(kmem_cache_alloc_from_sheaf(constructed, GFP_KERNEL, sheaf));
    else if (strcmp(kind, "refill-of-another") == 0)
        puts(kmem_cache_refill_sheaf(constructed, GFP_KERNEL, &sheaf, 9) == -EINVAL ? "-EINVAL" : "?");
    else if (strcmp(kind, "sheaf-null") == 0) {
        CHECK(kmem_cache_refill_sheaf(plain, GFP_KERNEL, &none, 9) == -EINVAL);
        CHECK(kmem_cache_refill_sheaf(plain, GFP_KERNEL, NULL, 9) == -EINVAL);
        said(kmem_cache_alloc_from_sheaf(plain, GFP_KERNEL, NULL));
    } else if (strcmp(kind, "node") == 0)
        said(kmem_cache_alloc_node(plain, GFP_KERNEL, 1000));
    else if (strcmp(kind, "node-kmalloc") == 0)
        said(kmalloc_node(8, GFP_KERNEL, -2));
    else if (strcmp(kind, "nofail") == 0)
        said(kmalloc(SIZE_MAX, GFP_KERNEL | __GFP_NOFAIL));
    else if (strcmp(kind, "destroy-live") == 0) {
        kmem_cache_destroy(plain);
        said(NULL);
        /* It stays, and can be ended when its objects are back. */
        kmem_cache_return_sheaf(plain, GFP_KERNEL, sheaf);
        errno = 0;
        kmem_cache_destroy(plain);
        CHECK(errno != EBUSY);
        return 0;
    } else if (strcmp(kind, "kfree-foreign") == 0)
        kfree(&plain);
    else if (strncmp(kind, "gone-", 5) == 0)
        after_destruction(kind + 5);
    /* What was refused changed nothing. */
    CHECK(kmem_cache_sheaf_size(sheaf) == 3 && all_bytes(p, 100, 0x61));
    return 0;
}
