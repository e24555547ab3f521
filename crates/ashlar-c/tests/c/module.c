/*
 * A module as the kernel has them: a small page cache. A radix tree finds entries by number, a list
 * keeps them in order of use, and inserting never fails half way, since the nodes it may need are
 * set aside before.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/types.h>
#include "check.h"

#define FAN_BITS 4
#define FAN (1u << FAN_BITS)
#define LEVELS 4

struct tree_node {
    void *slots[FAN];
    u32 used;
};

struct entry {
    struct entry *newer, *older;
    u64 key;
    u8 body[72];
};

struct batch {
    size_t count;
    void *entries[];
};

static struct kmem_cache *tree_node_cache;
static struct kmem_cache *entry_cache;
static struct entry lru = { &lru, &lru, 0, { 0 } };
static struct tree_node *root;
static size_t cached;
static const char *owner;

/* Nodes go back as they came: empty. */
static void tree_node_init(void *object)
{
    memset(object, 0, sizeof(struct tree_node));
}

static int cache_init(void)
{
    tree_node_cache = kmem_cache_create("tree_node", sizeof(struct tree_node), 0,
                                        SLAB_PANIC | SLAB_RECLAIM_ACCOUNT, tree_node_init);
    entry_cache = KMEM_CACHE(entry, SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT);
    if (!entry_cache) {
        kmem_cache_destroy(tree_node_cache);
        return -ENOMEM;
    }
    owner = kstrdup("module", GFP_KERNEL);
    root = kmem_cache_alloc(tree_node_cache, GFP_KERNEL);
    return owner && root ? 0 : -ENOMEM;
}

static void use_now(struct entry *entry)
{
    entry->older = lru.older;
    entry->newer = &lru;
    lru.older->newer = entry;
    lru.older = entry;
}

static void unlink_entry(struct entry *entry)
{
    entry->newer->older = entry->older;
    entry->older->newer = entry->newer;
}

static unsigned int slot_of(u64 key, int level)
{
    return (unsigned int)(key >> (FAN_BITS * level)) & (FAN - 1);
}

static struct entry *lookup(u64 key)
{
    struct tree_node *node = root;
    int level;

    for (level = LEVELS - 1; node && level > 0; level--)
        node = node->slots[slot_of(key, level)];
    return node ? node->slots[slot_of(key, 0)] : NULL;
}

static int insert(u64 key, gfp_t gfp)
{
    struct slab_sheaf *preload = kmem_cache_prefill_sheaf(tree_node_cache, gfp, LEVELS - 1);
    struct entry *entry = kmem_cache_zalloc(entry_cache, gfp);
    struct tree_node *node = root;
    int level;

    if (!preload || !entry) {
        if (preload)
            kmem_cache_return_sheaf(tree_node_cache, gfp, preload);
        if (entry)
            kmem_cache_free(entry_cache, entry);
        return -ENOMEM;
    }
    entry->key = key;
    memset(entry->body, (int)key, sizeof(entry->body));
    /* From here on nothing fails. */
    for (level = LEVELS - 1; level > 0; level--) {
        void **slot = &node->slots[slot_of(key, level)];

        if (!*slot) {
            *slot = kmem_cache_alloc_from_sheaf(tree_node_cache, GFP_NOWAIT, preload);
            CHECK(*slot && all_bytes(*slot, sizeof(struct tree_node), 0));
            node->used++;
        }
        node = *slot;
    }
    CHECK(!node->slots[slot_of(key, 0)]);
    node->slots[slot_of(key, 0)] = entry;
    node->used++;
    use_now(entry);
    cached++;
    kmem_cache_return_sheaf(tree_node_cache, gfp, preload);
    return 0;
}

static void remove_from_tree(u64 key)
{
    struct tree_node *path[LEVELS];
    int level;

    path[LEVELS - 1] = root;
    for (level = LEVELS - 1; level > 0; level--)
        path[level - 1] = path[level]->slots[slot_of(key, level)];
    for (level = 0; level < LEVELS; level++) {
        path[level]->slots[slot_of(key, level)] = NULL;
        if (--path[level]->used || path[level] == root)
            break;
        kmem_cache_free(tree_node_cache, path[level]);
    }
}

/* Drops the entries used longest ago; as a shrinker does. */
static size_t shrink(size_t count)
{
    struct batch *batch = kvzalloc(struct_size(batch, entries, count), GFP_KERNEL);

    CHECK(batch);
    while (batch->count < count && lru.newer != &lru) {
        struct entry *oldest = lru.newer;

        CHECK(all_bytes(oldest->body, sizeof(oldest->body), (int)oldest->key));
        unlink_entry(oldest);
        remove_from_tree(oldest->key);
        batch->entries[batch->count++] = oldest;
        cached--;
    }
    count = batch->count;
    kmem_cache_free_bulk(entry_cache, count, batch->entries);
    kvfree(batch);
    return count;
}

static void cache_exit(void)
{
    while (shrink(100))
        ;
    kmem_cache_free(tree_node_cache, root);
    CHECK(kmem_cache_shrink(entry_cache) == 0 && kmem_cache_shrink(tree_node_cache) == 0);
    kmem_cache_destroy(entry_cache);
    kmem_cache_destroy(tree_node_cache);
    kfree(owner);
}

/* Every other form that slab.h has. */
static void forms(void)
{
    struct kmem_cache_args args = { .align = 128, .sheaf_capacity = 32 };
    struct kmem_cache *a = kmem_cache_create("by args", 40, &args, SLAB_HWCACHE_ALIGN);
    struct kmem_cache *b = kmem_cache_create("by nothing", 40, NULL, 0);
    struct kmem_cache *c = KMEM_CACHE_USERCOPY(entry, SLAB_PANIC, body);
    struct kmem_cache *d = kmem_cache_create_usercopy("usercopy", 64, 0, 0, 8, 16, NULL);
    struct entry *entry = kmem_cache_alloc_node(c, GFP_KERNEL | __GFP_ZERO | __GFP_THISNODE, 0);
    u32 *numbers = kcalloc_node(10, sizeof(*numbers), GFP_KERNEL, NUMA_NO_NODE);
    struct entry *more = kzalloc_objs(*more, 3);
    void *large;

    CHECK(a && b && c && d && entry && numbers && more);
    CHECK(all_bytes(entry, sizeof(*entry), 0) && all_bytes(numbers, 40, 0) && all_bytes(more, 3 * sizeof(*more), 0));
    kmem_cache_free(c, entry);
    entry = kmem_cache_alloc_lru(c, NULL, GFP_NOFS);
    CHECK(entry);
    kmem_cache_free(c, entry);
    kfree(numbers);
    kfree(more);
    entry = kmalloc_obj(*entry);
    CHECK(entry && ksize(entry) >= sizeof(*entry));
    kfree(entry);
    entry = kmalloc_obj(struct entry, GFP_ATOMIC);
    CHECK(entry);
    kfree(entry);
    large = kvmalloc_array(1000, 1000, GFP_KERNEL);
    CHECK(large);
    kvfree(large);
    large = kzalloc_node(100000, GFP_KERNEL | __GFP_THISNODE, 0);
    CHECK(large && all_bytes(large, 100000, 0));
    kfree(large);
    errno = 0;
    CHECK(!kmalloc_array_node(SIZE_MAX, 2, GFP_KERNEL, 0) && errno == ENOMEM);
    CHECK(size_mul(SIZE_MAX, 2) == SIZE_MAX && size_add(SIZE_MAX, 1) == SIZE_MAX && size_sub(3, 4) == SIZE_MAX);
    CHECK(array_size(3, 4) == 12 && array3_size(2, 3, 4) == 24);
    kmem_cache_destroy(a);
    kmem_cache_destroy(b);
    kmem_cache_destroy(c);
    kmem_cache_destroy(d);
}

int main(void)
{
    u64 key;

    CHECK(cache_init() == 0);
    for (key = 0; key < 20000; key++) {
        CHECK(insert((key * 7919) & 0xffff, GFP_KERNEL) == 0);
        if (cached > 5000)
            CHECK(shrink(1000) == 1000);
    }
    CHECK(cached > 0 && cached <= 5000);
    for (key = 19999; key > 19990; key--) {
        struct entry *entry = lookup((key * 7919) & 0xffff);

        CHECK(entry && entry->key == ((key * 7919) & 0xffff));
    }
    CHECK(!lookup(0));
    cache_exit();
    forms();
    puts("well");
    return 0;
}
