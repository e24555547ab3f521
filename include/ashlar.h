/*
 * The Linux slab allocators for C programs: caches, kmalloc, prefilled sheaves.
 *
 * Names, arguments and promises are the kernel's (https://docs.kernel.org/core-api/mm-api.html).
 * A failure is a null pointer, or a negative number, and errno; after a success errno means
 * nothing. Every function may be called from any thread, and from the handlers of a fork, but not from a
 * signal handler. Invalid use that is found is reported in one line on standard error, and ends the
 * program (the option on_error says otherwise).
 *
 * Link with -lashlar. Kernel code that includes <linux/slab.h> finds one beside this file.
 *
 * Written from the sources of the crate ashlar-c: do not edit.
 */

#ifndef ASHLAR_H
#define ASHLAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a request of 0 bytes returns: no memory, but not null either. Freeing it does nothing. */
#define ZERO_SIZE_PTR ((void *)16)
/* True for NULL and for ZERO_SIZE_PTR, behind which there is nothing. */
#define ZERO_OR_NULL_PTR(x) ((size_t)(x) <= (size_t)ZERO_SIZE_PTR)

/* For struct kmem_cache_args: all defaults, in C and in C++. */
#ifdef __cplusplus
#define ASHLAR_CACHE_ARGS_INIT {}
#else
#define ASHLAR_CACHE_ARGS_INIT { 0 }
#endif

/* Largest size that the fast path of kmalloc serves, in bytes. */
#define KMALLOC_MAX_CACHE_SIZE 8192

/* Largest size at all, in bytes; larger requests fail. */
#define KMALLOC_MAX_SIZE 9223372036821221375

/* Smallest class of kmalloc, in bytes. */
#define KMALLOC_MIN_SIZE 8

/*
 * Alignment of all memory of kmalloc, at least, in bytes. A size that is a power of two is aligned
 * to itself, up to 2 MiB.
 */
#define ARCH_KMALLOC_MINALIGN 8

/* Alignment of the objects of all caches, at least, in bytes. */
#define ARCH_SLAB_MINALIGN 8

/* No wish for a node. */
#define NUMA_NO_NODE -1

/* Bytes of a cache's name in struct ashlar_cache_info, with its end. */
#define ASHLAR_NAME_SIZE 48

/* Bytes of an engine's id in struct ashlar_cache_info, with its end. */
#define ASHLAR_ENGINE_SIZE 16

/* A cache: objects of one size with a name. */
struct kmem_cache;

/*
 * A prefilled sheaf: objects of one cache that are set aside for one owner. Used by one thread at
 * a time.
 */
struct slab_sheaf;

/*
 * How a cache is made, beyond its name and size. All zeros is the default, as is a null pointer.
 * Options of the user's for a cache of this name win over what stands here. Members are added at
 * the end, and never without a new SONAME once there is a release: the library reads as many as it
 * has, so a program must be compiled with its header.
 */
struct kmem_cache_args {
    /* Alignment of objects in bytes, a power of two up to 4096; 0 for 8. */
    unsigned int align;
    /*
     * Start of the part of an object that may be copied to user space. Checked, and then without
     * use: nothing here copies to user space.
     */
    unsigned int useroffset;
    /* Bytes of that part. A cache with one is not merged. */
    unsigned int usersize;
    /*
     * Called once for each object when it is first carved from a slab. Objects must come back in
     * the state that it leaves. It must not allocate from its own cache.
     */
    void (*ctor)(void*);
    /* Objects in a sheaf, 1 to 254; 0: by object size. */
    unsigned int sheaf_capacity;
    /* The library's own: whether min_partial holds; otherwise by object size. */
    bool use_min_partial;
    /* The library's own: whether cpu_partial holds; otherwise by object size. */
    bool use_cpu_partial;
    /* The library's own: whether min_order holds; otherwise the option of that name. */
    bool use_min_order;
    /* The library's own: whether max_order holds; otherwise the option of that name. */
    bool use_max_order;
    /* Empty slabs that each node keeps, 0 to 1048576. */
    unsigned int min_partial;
    /*
     * Free objects that the partial slabs of a CPU may have, 0 to 1048576, of the engine
     * slub-bulk.
     */
    unsigned int cpu_partial;
    /* Smallest order of slabs, 0 to 9: 2^order pages of 4 KiB. */
    unsigned int min_order;
    /* Largest order of slabs, 0 to 9. */
    unsigned int max_order;
    /*
     * The library's own: id of the engine, a string as the option engine has it; null: that of
     * the process.
     */
    const char *engine;
    /*
     * The library's own: whether remote_node_defrag_ratio holds; otherwise the option of that
     * name.
     */
    bool use_remote_node_defrag_ratio;
    /*
     * In how many of a hundred cases partial slabs of other nodes are looked at before a slab is
     * new, 0 to 100, of the engine ashlar and the stages of SLUB.
     */
    unsigned int remote_node_defrag_ratio;
};

/*
 * How a cache is made: a combination of the SLAB_ bits. Bits that are not described below are
 * refused with EINVAL.
 */
typedef unsigned int slab_flags_t;

/*
 * How to allocate: a combination of the __GFP_ bits, most often GFP_KERNEL. What is not described
 * below is refused.
 */
typedef unsigned int gfp_t;

/*
 * What a cache looks like at one moment. Sums over all nodes; exact while no thread allocates or
 * frees.
 */
struct ashlar_cache_info {
    /* Name, as a string. */
    char name[ASHLAR_NAME_SIZE];
    /* Id of the engine, as a string. */
    char engine[ASHLAR_ENGINE_SIZE];
    /*
     * Caches that share these slabs and figures; more than 1 where caches were merged.
     * ashlar_for_each_alias tells their names.
     */
    size_t refcount;
    /* Bytes that the user may use. */
    size_t object_size;
    /* Bytes from one object to the next. */
    size_t stride;
    /* Alignment of objects in bytes. */
    size_t align;
    /* Objects in a slab. */
    size_t objects_per_slab;
    /* Order of a slab: 2^order pages of 4 KiB. */
    size_t order;
    /* Objects in a sheaf; 0: no sheaves. */
    size_t sheaf_capacity;
    /* Full sheaves that each barn may hold. */
    size_t barn_limit;
    /* Empty slabs that each node keeps. */
    size_t min_partial;
    /* Slabs in existence. */
    size_t slabs;
    /* Objects that those slabs can hold. */
    size_t objects;
    /* Objects allocated and not freed, those in prefilled sheaves among them. */
    size_t live;
    /* Free objects in the sheaves of CPUs and barns. */
    size_t cached;
    /* Bytes of slab space. */
    size_t bytes;
    /* Slabs on partial lists. */
    size_t partial;
    /* Full sheaves taken out of barns, since the cache was created; as all that follow. */
    uint64_t barn_get;
    /* Times that a full sheaf was wanted and a barn had none. */
    uint64_t barn_get_fail;
    /* Full sheaves put into barns. */
    uint64_t barn_put;
    /* Full sheaves that a barn had no room for. */
    uint64_t barn_put_fail;
    /* Sheaves that one CPU took out of the barn of another. */
    uint64_t barn_robbed;
    /* Refills from slabs. */
    uint64_t sheaf_refill;
    /* Flushes to slabs. */
    uint64_t sheaf_flush;
    /* Slabs made. */
    uint64_t alloc_slab;
    /* Slabs given back. */
    uint64_t free_slab;
    /* Slabs of a smaller order than wanted, where pages were short. */
    uint64_t order_fallback;
};

/*
 * A cache without slabs of its own: one that was merged, or whose engine lets caches share pages.
 */
struct ashlar_alias_info {
    /* Its name, as a string. */
    char name[ASHLAR_NAME_SIZE];
    /* Name of the cache whose slabs serve it. */
    char cache[ASHLAR_NAME_SIZE];
    /* Bytes of an object that were asked for under this name. */
    size_t object_size;
};

/* Memory for DMA. Accepted; here all memory is alike, as in a kernel without that zone. */
#define __GFP_DMA (1 << 0)

/* Accepted; no object is ever moved. */
#define __GFP_MOVABLE (1 << 3)

/* Accepted; see SLAB_RECLAIM_ACCOUNT. */
#define __GFP_RECLAIMABLE (1 << 4)

/*
 * Accepted; there are no emergency reserves. For a reserve of your own: kmem_cache_prefill_sheaf.
 */
#define __GFP_HIGH (1 << 5)

/* Accepted; nothing here starts input or output. */
#define __GFP_IO (1 << 6)

/* Accepted; nothing here calls into a file system. */
#define __GFP_FS (1 << 7)

/* All bytes of the object are zero. Not for caches with a constructor: NULL with EINVAL. */
#define __GFP_ZERO (1 << 8)

/*
 * Accepted; the library never sleeps for memory, but may take a lock for a few instructions
 * whatever the flags.
 */
#define __GFP_DIRECT_RECLAIM (1 << 10)

/* Accepted; the background thread comes and goes by itself. */
#define __GFP_KSWAPD_RECLAIM (1 << 11)

/* Accepted; pages have no writers to balance. */
#define __GFP_WRITE (1 << 12)

/* Accepted; a failed allocation prints nothing anyway. */
#define __GFP_NOWARN (1 << 13)

/* Accepted; free memory of other caches is asked for before any request fails. */
#define __GFP_RETRY_MAYFAIL (1 << 14)

/*
 * The call does not return without memory: when there is none, the program ends with a line on
 * standard error.
 */
#define __GFP_NOFAIL (1 << 15)

/* Accepted; nothing is tried for long. */
#define __GFP_NORETRY (1 << 16)

/* Accepted; there are no emergency reserves. */
#define __GFP_MEMALLOC (1 << 17)

/* Accepted; large memory is always one run of pages, or one mapping. */
#define __GFP_COMP (1 << 18)

/* Accepted; there are no emergency reserves. */
#define __GFP_NOMEMALLOC (1 << 19)

/* Accepted; there are no cpusets. */
#define __GFP_HARDWALL (1 << 20)

/* With a function that takes a node: memory of that node or NULL. Elsewhere it means nothing. */
#define __GFP_THISNODE (1 << 21)

/* Accepted; nothing is charged to anybody. */
#define __GFP_ACCOUNT (1 << 22)

/* Both kinds of reclaim. */
#define __GFP_RECLAIM (__GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM)

/* The usual flags. */
#define GFP_KERNEL ((__GFP_RECLAIM | __GFP_IO) | __GFP_FS)

/* As GFP_KERNEL, charged to the caller's group in the kernel. */
#define GFP_KERNEL_ACCOUNT (GFP_KERNEL | __GFP_ACCOUNT)

/* For callers that must not sleep. */
#define GFP_ATOMIC (__GFP_HIGH | __GFP_KSWAPD_RECLAIM)

/* For callers that must not sleep and expect to fail. */
#define GFP_NOWAIT (__GFP_KSWAPD_RECLAIM | __GFP_NOWARN)

/* For callers inside input and output. */
#define GFP_NOIO __GFP_RECLAIM

/* For callers inside a file system. */
#define GFP_NOFS (__GFP_RECLAIM | __GFP_IO)

/* For memory of user processes, in the kernel. */
#define GFP_USER (((__GFP_RECLAIM | __GFP_IO) | __GFP_FS) | __GFP_HARDWALL)

/* See __GFP_DMA. */
#define GFP_DMA __GFP_DMA

/* Accepted without effect, as in a kernel without slab debugging. */
#define SLAB_CONSISTENCY_CHECKS (1 << 8)

/* Accepted without effect, as in a kernel without slab debugging. */
#define SLAB_RED_ZONE (1 << 10)

/* Accepted without effect, as in a kernel without slab debugging. */
#define SLAB_POISON (1 << 11)

/* Align objects to cache lines, to a fraction of one for small objects. */
#define SLAB_HWCACHE_ALIGN (1 << 13)

/* Accepted; see __GFP_DMA. */
#define SLAB_CACHE_DMA (1 << 14)

/* Accepted without effect, as in a kernel without slab debugging. */
#define SLAB_STORE_USER (1 << 16)

/* Accepted; there are no lists of reclaimable pages. */
#define SLAB_RECLAIM_ACCOUNT (1 << 17)

/* The other name of SLAB_RECLAIM_ACCOUNT. */
#define SLAB_TEMPORARY SLAB_RECLAIM_ACCOUNT

/* When the cache cannot be created, the program ends with a line on standard error. */
#define SLAB_PANIC (1 << 18)

/* Accepted without effect, as in a kernel without slab debugging. */
#define SLAB_TRACE (1 << 21)

/* Accepted; nothing tracks objects here. */
#define SLAB_DEBUG_OBJECTS (1 << 22)

/* Accepted; nothing looks for leaks here. */
#define SLAB_NOLEAKTRACE (1 << 23)

/*
 * The cache shares its slabs with no other. Without, caches of objects alike are merged, by the
 * kernel's rules; but for the option merge=off. Of the flags of debugging, and SLAB_NOLEAKTRACE
 * and SLAB_FAILSLAB, each keeps a cache from being merged as well.
 */
#define SLAB_NO_MERGE (1 << 24)

/* Accepted; no failures are injected. */
#define SLAB_FAILSLAB (1 << 25)

/* Accepted; nothing is charged to anybody. */
#define SLAB_ACCOUNT (1 << 26)

/* Accepted without effect, as in a kernel without KASAN. */
#define SLAB_KASAN (1 << 27)

/* Accepted; no user gives a cache debug flags. */
#define SLAB_NO_USER_FLAGS (1 << 28)

/* Accepted without effect, as in a kernel without KFENCE. */
#define SLAB_SKIP_KFENCE (1 << 29)

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/*
 * A cache named name (up to 47 bytes, copied) for objects of object_size bytes, 1 to 2 MiB.
 * args may be null. It may share the slabs of another whose objects are alike: see
 * SLAB_NO_MERGE.
 *
 * Returns NULL with errno EINVAL for a bad argument, which a line on standard error names, or
 * ENOMEM; with SLAB_PANIC the program ends instead.
 *
 * The caller promises:
 * name is null or a string, args null or readable; the constructor is one for objects of this
 * size, which any thread may call and which does not unwind, and the engine null or a string.
 */
struct kmem_cache *kmem_cache_create(const char *name, unsigned int object_size,
    const struct kmem_cache_args *args, slab_flags_t flags);

/*
 * Ends a cache; a null pointer is no cache and nothing happens. Where caches were merged only this
 * one's name goes, and the last of them ends all. While objects are in use the cache stays as it
 * is, a line on standard error says so, and errno is EBUSY.
 *
 * The caller promises:
 * s is null or a cache that no thread uses any more.
 */
void kmem_cache_destroy(struct kmem_cache *s);

/*
 * One object. Its contents are those of its last use, or what the constructor left. NULL with
 * errno ENOMEM when memory ends, EINVAL for bad flags.
 *
 * The caller promises:
 * s is a live cache.
 */
void *kmem_cache_alloc(struct kmem_cache *s, gfp_t flags);

/*
 * One object, all bytes zero. Not for caches with a constructor: NULL with errno EINVAL.
 *
 * The caller promises:
 * s is a live cache.
 */
void *kmem_cache_zalloc(struct kmem_cache *s, gfp_t flags);

/*
 * Gives an object back. A null object is none and nothing happens.
 *
 * The caller promises:
 * s is a live cache; object is null, or was allocated from it, was not freed since, and no
 * thread uses it any more. With a constructor it is in constructed state.
 */
void kmem_cache_free(struct kmem_cache *s, void *object);

/*
 * Fills p with size objects: all or nothing. Returns size, or 0 with errno ENOMEM, or EINVAL
 * for bad flags, a null array, or a size above INT_MAX.
 *
 * The caller promises:
 * s is a live cache; p has room for size pointers.
 */
int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t size, void **p);

/*
 * Gives size objects back. A null cache stands for any caches: then it is kfree_bulk.
 *
 * The caller promises:
 * As for kmem_cache_free, for each of them; none occurs twice and none is null.
 */
void kmem_cache_free_bulk(struct kmem_cache *s, size_t size, void **p);

/*
 * Gives free slabs back to the system's side of the library. Returns 0 if no slab is left, else 1.
 *
 * The caller promises:
 * s is a live cache.
 */
int kmem_cache_shrink(struct kmem_cache *s);

/*
 * Bytes of an object that its user may use; of merged caches the most that one of them asked for.
 *
 * The caller promises:
 * s is a live cache.
 */
unsigned int kmem_cache_size(struct kmem_cache *s);

/*
 * Sets size objects aside: as many calls of kmem_cache_alloc_from_sheaf will succeed, whatever
 * becomes of memory meanwhile. NULL with errno ENOMEM when memory ends, EINVAL for a size of 0 and
 * for bad flags (__GFP_ZERO is one: ask for zeros when you take an object).
 *
 * The caller promises:
 * s is a live cache, and lives longer than the sheaf.
 */
struct slab_sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *s, gfp_t gfp, unsigned int size);

/*
 * One of the objects that are set aside; NULL only when none is left (errno is ENOMEM) or for bad
 * flags (EINVAL). With __GFP_ZERO all its bytes are zero. It is freed by kmem_cache_free.
 *
 * The caller promises:
 * s is the cache that the sheaf was prefilled from; no other thread uses the sheaf meanwhile.
 */
void *kmem_cache_alloc_from_sheaf(struct kmem_cache *s, gfp_t gfp, struct slab_sheaf *sheaf);

/*
 * Sets more objects aside, until there are at least size. The sheaf may move: *sheafp is where
 * it is then. Returns 0, -ENOMEM, or -EINVAL; after a failure the sheaf is as it was.
 *
 * The caller promises:
 * s is the cache that the sheaf was prefilled from; no other thread uses the sheaf meanwhile.
 */
int kmem_cache_refill_sheaf(struct kmem_cache *s, gfp_t gfp, struct slab_sheaf **sheafp, unsigned int size);

/*
 * Gives a sheaf and the objects that are left back to the cache. A null sheaf is none and nothing
 * happens.
 *
 * The caller promises:
 * s is the cache that the sheaf was prefilled from, or null; no thread uses the sheaf any more.
 */
void kmem_cache_return_sheaf(struct kmem_cache *s, gfp_t gfp, struct slab_sheaf *sheaf);

/*
 * Objects that are left in a sheaf; 0 for a null pointer.
 *
 * The caller promises:
 * A live sheaf, or null.
 */
unsigned int kmem_cache_sheaf_size(struct slab_sheaf *sheaf);

/*
 * Memory of at least size bytes. Sizes up to 64 KiB come from caches, one for each class
 * (kmalloc-64); larger ones are pages; those above 32 MiB are mappings of their own.
 */
void *kmalloc(size_t size, gfp_t flags);

/* As kmalloc, with all bytes zero. */
void *kzalloc(size_t size, gfp_t flags);

/* Memory for n elements of size bytes; NULL with errno ENOMEM when the product overflows. */
void *kmalloc_array(size_t n, size_t size, gfp_t flags);

/* As kmalloc_array, with all bytes zero. */
void *kcalloc(size_t n, size_t size, gfp_t flags);

/*
 * Changes the size of memory, moving it if need be: it stays where it is if new_size is at most
 * its ksize. A null pointer allocates; a new size of 0 frees and returns ZERO_SIZE_PTR.
 *
 * With __GFP_ZERO, bytes that are added are zero, if the memory was allocated, and always resized,
 * with that flag.
 *
 * The caller promises:
 * As for kfree. On success the old pointer is dead.
 */
void *krealloc(const void *p, size_t new_size, gfp_t flags);

/*
 * As krealloc, for new_n elements of new_size bytes; NULL with errno ENOMEM when the product
 * overflows.
 *
 * The caller promises:
 * As for krealloc.
 */
void *krealloc_array(void *p, size_t new_n, size_t new_size, gfp_t flags);

/*
 * Frees memory of kmalloc, or an object of any cache.
 *
 * The caller promises:
 * object is null, ZERO_SIZE_PTR, or live memory that no thread uses any more.
 */
void kfree(const void *object);

/*
 * As kfree, by a caller that knows the size it asked for: a little faster.
 *
 * The caller promises:
 * As for kfree; the memory came from kmalloc or a relative, for exactly size bytes.
 */
void kfree_sized(const void *object, size_t size);

/*
 * As kfree, but all bytes are overwritten with zeros before.
 *
 * The caller promises:
 * As for kfree.
 */
void kfree_sensitive(const void *object);

/*
 * Frees size pointers of any caches and sizes; null pointers among them are skipped.
 *
 * The caller promises:
 * p holds size pointers, each as for kfree; none occurs twice.
 */
void kfree_bulk(size_t size, void **p);

/*
 * Bytes that may be used behind a pointer of kmalloc: at least what was asked for. 0 for NULL and
 * ZERO_SIZE_PTR.
 *
 * The caller promises:
 * As for kfree, but it stays live.
 */
size_t ksize(const void *object);

/* Bytes that kmalloc really sets aside for a request. */
size_t kmalloc_size_roundup(size_t size);

/*
 * As kmalloc. The kernel's name for memory that need not be contiguous in physical memory, which
 * is no question here.
 */
void *kvmalloc(size_t size, gfp_t flags);

/*
 * As krealloc, for memory of kvmalloc.
 *
 * The caller promises:
 * As for krealloc.
 */
void *kvrealloc(const void *p, size_t size, gfp_t flags);

/*
 * As kfree, for memory of kvmalloc and of kmalloc.
 *
 * The caller promises:
 * As for kfree.
 */
void kvfree(const void *addr);

/*
 * As kvfree, but len bytes are overwritten with zeros before.
 *
 * The caller promises:
 * As for kfree; len is at most its ksize.
 */
void kvfree_sensitive(const void *addr, size_t len);

/*
 * As kmem_cache_alloc, of a NUMA node if that has memory; with __GFP_THISNODE of that node or not
 * at all. A node that does not exist is refused with EINVAL.
 *
 * The caller promises:
 * s is a live cache.
 */
void *kmem_cache_alloc_node(struct kmem_cache *s, gfp_t flags, int node);

/*
 * As kmalloc, of a NUMA node if that has memory; with __GFP_THISNODE of that node or not at all. A
 * node that does not exist is refused with EINVAL. Above 32 MiB the system decides.
 */
void *kmalloc_node(size_t size, gfp_t flags, int node);

/*
 * A copy of len bytes. NULL with errno ENOMEM when memory ends, EINVAL for bad flags.
 *
 * The caller promises:
 * src is readable for len bytes.
 */
void *kmemdup(const void *src, size_t len, gfp_t gfp);

/*
 * A copy of len bytes with a zero byte behind them; NULL for NULL. Fails as kmemdup.
 *
 * The caller promises:
 * s is null, or readable for len bytes.
 */
char *kmemdup_nul(const char *s, size_t len, gfp_t gfp);

/*
 * A copy of a string; NULL for NULL. Fails as kmemdup.
 *
 * The caller promises:
 * s is null or a string.
 */
char *kstrdup(const char *s, gfp_t gfp);

/*
 * A copy of the first max bytes of a string, or of all of it if it is shorter, with a zero byte
 * behind them; NULL for NULL. Fails as kmemdup.
 *
 * The caller promises:
 * s is null, a string, or readable for max bytes.
 */
char *kstrndup(const char *s, size_t max, gfp_t gfp);

/*
 * Shape, tunables and figures of a cache.
 *
 * The caller promises:
 * s is a live cache; info may be written.
 */
void ashlar_cache_info(const struct kmem_cache *s, struct ashlar_cache_info *info);

/*
 * Changes a tunable of a cache, also while threads use it: cpu_partial, min_partial,
 * sheaf_capacity, remote_node_defrag_ratio, limit, batchcount or shared; for all names of merged
 * caches. Returns 0; -EINVAL, after a line on standard error that names the tunable and what was
 * expected, for an unknown name, a value out of range, or an engine that has no such thing;
 * -ENOMEM. Nothing has changed then.
 *
 * The caller promises:
 * s is a live cache, name null or a string.
 */
int ashlar_set_tunable(struct kmem_cache *s, const char *name, size_t value);

/*
 * Writes a tunable of a cache to value. Returns 0; -EINVAL for an unknown name, after a line on
 * standard error, and, without one, where the cache's engine has no such thing.
 *
 * The caller promises:
 * s is a live cache, name null or a string; value may be written.
 */
int ashlar_tunable(const struct kmem_cache *s, const char *name, size_t *value);

/*
 * Calls each for every cache, those of kmalloc among them, with arg. It may allocate, and
 * create and destroy caches.
 *
 * The caller promises:
 * each may be called with arg.
 */
void ashlar_for_each_cache(void (*each)(const struct ashlar_cache_info*, void*), void *arg);

/*
 * Calls each for every cache without slabs of its own, with arg: who was merged with whom. It
 * may allocate, and create and destroy caches.
 *
 * The caller promises:
 * each may be called with arg.
 */
void ashlar_for_each_alias(void (*each)(const struct ashlar_alias_info*, void*), void *arg);

/*
 * Brings every cached object back to its slab and gives all free memory back to the system, at
 * once. Returns the number of 4 KiB pages given back.
 */
size_t ashlar_reap(void);

/*
 * Starts the background thread, which gives free memory back to the system while the program
 * sleeps. Without it the calls of the program do that work. Returns 0, also if the thread runs
 * already; -EPERM if the option reaper allows no thread; -EAGAIN if the system refused it. The
 * thread is lost in the child of a fork.
 *
 * To be called where threads may be made: not from a signal handler, and not under a lock that
 * malloc may need.
 */
int ashlar_start_reaper(void);

/* Ends the background thread, if there is one, and returns when it is gone. */
void ashlar_stop_reaper(void);

/*
 * How the fast paths are protected in this process: "rseq" or "lock" ("emulate" if the option
 * percpu asks for it, "down" if the allocator could not start). Starts the allocator.
 */
const char *ashlar_mode(void);

/* The version of the library, as "0.1.0". */
const char *ashlar_version(void);

/*
 * Sets options before the first allocation, as "key=value,key=value": the grammar of the
 * environment variable ASHLAR_OPTIONS, which is read after and wins; percpu=emulate is for that
 * variable alone. Returns 0; -EINVAL if a part is no option (the others are set); -EBUSY if the
 * allocator has started. What is wrong is told in message, a buffer of size bytes, or null.
 *
 * The caller promises:
 * text is a string, message null or writable for size bytes.
 */
int ashlar_configure(const char *text, char *message, size_t size);

/*
 * Whether text is good for ashlar_configure, without setting anything: 0, or -EINVAL and a
 * message.
 *
 * The caller promises:
 * As for ashlar_configure.
 */
int ashlar_check_options(const char *text, char *message, size_t size);

#ifdef __cplusplus
} /* extern "C" */
#endif /* __cplusplus */

#endif  /* ASHLAR_H */
