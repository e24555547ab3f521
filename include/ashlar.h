/*
 * The Linux slab allocators for C programs: caches, kmalloc, prefilled sheaves.
 *
 * Names, arguments and contracts are the kernel's
 * (https://docs.kernel.org/core-api/mm-api.html). A function that fails returns a null pointer or a
 * negative number and sets errno; after a success errno means nothing. Every function may be called
 * from any thread and from the handlers of a fork, but not from a signal handler. Invalid use that
 * is found is reported in one line on standard error, and ends the program (unless the option
 * on_error has another value).
 *
 * Link with -lashlar. Kernel code that includes <linux/slab.h> finds that header beside this file.
 *
 * Generated from the sources of the crate ashlar-c; do not edit.
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

/* Frames of a call stack in struct ashlar_trace. */
#define ASHLAR_TRACE_FRAMES 16

/* Largest size that the fast path of kmalloc serves, in bytes. */
#define KMALLOC_MAX_CACHE_SIZE 8192

/* Largest size, in bytes; larger requests fail. */
#define KMALLOC_MAX_SIZE 9223372036821221375

/* Smallest class of kmalloc, in bytes. */
#define KMALLOC_MIN_SIZE 8

/*
 * Least alignment of memory of kmalloc, in bytes. A size that is a power of two is aligned to
 * itself, up to 2 MiB.
 */
#define ARCH_KMALLOC_MINALIGN 8

/* Least alignment of the objects of all caches, in bytes. */
#define ARCH_SLAB_MINALIGN 8

/* No preferred node. */
#define NUMA_NO_NODE -1

/* Bytes of a cache's name in struct ashlar_cache_info, with its end. */
#define ASHLAR_NAME_SIZE 48

/* Bytes of an engine's id in struct ashlar_cache_info, with its end. */
#define ASHLAR_ENGINE_SIZE 16

/* A cache: objects of one size with a name. */
struct kmem_cache;

/* A prefilled sheaf: objects of one cache, reserved for one owner. Used by one thread at a time. */
struct slab_sheaf;

/*
 * The arguments of a cache beyond its name and size. All zeros, or a null pointer, select the
 * defaults. Options that the user sets for a cache of this name take precedence. New members are
 * added at the end; after the first release, only with a new SONAME. The library reads all members
 * that it was built with, so a program must be compiled with the library's header.
 */
struct kmem_cache_args {
    /* Alignment of objects in bytes, a power of two up to 4096; 0 means 8. */
    unsigned int align;
    /*
     * Start of the part of an object that may be copied to user space. Checked, but not used,
     * because nothing here copies to user space.
     */
    unsigned int useroffset;
    /* Bytes of that part. A cache with one is not merged. */
    unsigned int usersize;
    /*
     * Called once for each object, when it is first carved from a slab. Objects must be freed in
     * the state that it leaves. It must not allocate from its own cache.
     */
    void (*ctor)(void*);
    /* Objects in a sheaf, 1 to 254; 0: chosen by object size. */
    unsigned int sheaf_capacity;
    /* The library's own: whether min_partial is used; otherwise it is chosen by object size. */
    bool use_min_partial;
    /* The library's own: whether cpu_partial is used; otherwise it is chosen by object size. */
    bool use_cpu_partial;
    /* The library's own: whether min_order is used, instead of the option of that name. */
    bool use_min_order;
    /* The library's own: whether max_order is used, instead of the option of that name. */
    bool use_max_order;
    /* Empty slabs that each node keeps, 0 to 1048576. */
    unsigned int min_partial;
    /*
     * The most free objects on the partial slabs of a CPU, 0 to 1048576, in the engine slub-bulk.
     */
    unsigned int cpu_partial;
    /* Smallest order of slabs, 0 to 9: 2^order pages of 4 KiB. */
    unsigned int min_order;
    /* Largest order of slabs, 0 to 9. */
    unsigned int max_order;
    /*
     * The library's own: id of the engine, as a string like the value of the option engine;
     * null: the engine of the process.
     */
    const char *engine;
    /*
     * The library's own: whether remote_node_defrag_ratio is used, instead of the option of that
     * name.
     */
    bool use_remote_node_defrag_ratio;
    /*
     * The percentage of refills that search the partial slabs of other nodes before a new slab is
     * allocated, 0 to 100, in the engine ashlar and the stages of SLUB.
     */
    unsigned int remote_node_defrag_ratio;
};

/*
 * Flags of a cache: a combination of the SLAB_ bits. Bits that are not described below are refused
 * with EINVAL.
 */
typedef unsigned int slab_flags_t;

/*
 * Flags of an allocation: a combination of the __GFP_ bits, most often GFP_KERNEL. Bits that are
 * not described below are refused.
 */
typedef unsigned int gfp_t;

/* The objects of a cache that were allocated, or freed, by one call stack. */
struct ashlar_trace {
    /* Objects. */
    size_t count;
    /* Milliseconds since it happened: the least of all objects, the sum, the largest. */
    uint64_t age_min;
    /* See age_min. */
    uint64_t age_sum;
    /* See age_min. */
    uint64_t age_max;
    /* The least number of a thread, as the system counts threads. */
    unsigned int thread_min;
    /* The largest. */
    unsigned int thread_max;
    /* The CPUs, a bit for each of the first 64. */
    uint64_t cpus;
    /* The number of frames. */
    size_t depth;
    /* Return addresses, innermost first. */
    const void *frames[ASHLAR_TRACE_FRAMES];
};

/*
 * The state of a cache at one moment, summed over all nodes. It is exact while no thread allocates
 * or frees.
 */
struct ashlar_cache_info {
    /* Name, as a string. */
    char name[ASHLAR_NAME_SIZE];
    /* Id of the engine, as a string. */
    char engine[ASHLAR_ENGINE_SIZE];
    /*
     * Caches that share these slabs and figures; more than 1 if caches were merged.
     * ashlar_for_each_alias lists their names.
     */
    size_t refcount;
    /* Usable bytes of an object. */
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
    /* Objects allocated and not freed, including those in prefilled sheaves. */
    size_t live;
    /* Free objects in the sheaves of CPUs and barns. */
    size_t cached;
    /* Bytes of slab space. */
    size_t bytes;
    /* Slabs on partial lists. */
    size_t partial;
    /*
     * Full sheaves taken out of barns. This counter and all that follow count from the creation of
     * the cache.
     */
    uint64_t barn_get;
    /* Times that a CPU needed a full sheaf and the barn had none. */
    uint64_t barn_get_fail;
    /* Full sheaves put into barns. */
    uint64_t barn_put;
    /* Full sheaves that a barn could not hold. */
    uint64_t barn_put_fail;
    /* Sheaves that one CPU took out of the barn of another. */
    uint64_t barn_robbed;
    /* Refills from slabs. */
    uint64_t sheaf_refill;
    /* Flushes to slabs. */
    uint64_t sheaf_flush;
    /* Slabs allocated. */
    uint64_t alloc_slab;
    /* Slabs freed. */
    uint64_t free_slab;
    /* Slabs of a smaller order than usual, because pages were short. */
    uint64_t order_fallback;
    /* Objects freed that another CPU or node had allocated; of CPUs only in malloc's caches. */
    uint64_t remote_free;
    /* Times that a lock of the cache had to be waited for. */
    uint64_t lock_waits;
};

/* A cache without slabs of its own, because it was merged or its engine lets caches share pages. */
struct ashlar_alias_info {
    /* Its name, as a string. */
    char name[ASHLAR_NAME_SIZE];
    /* Name of the cache whose slabs serve it. */
    char cache[ASHLAR_NAME_SIZE];
    /* The object size that this cache was created with. */
    size_t object_size;
};

/* Memory for DMA. Accepted; there is only one kind of memory, as in a kernel without that zone. */
#define __GFP_DMA (1 << 0)

/* Accepted; no object is ever moved. */
#define __GFP_MOVABLE (1 << 3)

/* Accepted; see SLAB_RECLAIM_ACCOUNT. */
#define __GFP_RECLAIMABLE (1 << 4)

/* Accepted; there are no emergency reserves. kmem_cache_prefill_sheaf creates a private reserve. */
#define __GFP_HIGH (1 << 5)

/* Accepted; nothing here starts input or output. */
#define __GFP_IO (1 << 6)

/* Accepted; nothing here calls into a file system. */
#define __GFP_FS (1 << 7)

/* All bytes of the object are zero. Refused with EINVAL for caches with a constructor. */
#define __GFP_ZERO (1 << 8)

/*
 * Accepted; the library never sleeps for memory. It may take a lock for a few instructions with
 * any flags.
 */
#define __GFP_DIRECT_RECLAIM (1 << 10)

/* Accepted; the background thread works without a request. */
#define __GFP_KSWAPD_RECLAIM (1 << 11)

/* Accepted; pages have no writers to balance. */
#define __GFP_WRITE (1 << 12)

/* Accepted; a failed allocation prints nothing anyway. */
#define __GFP_NOWARN (1 << 13)

/* Accepted; before any request fails, other caches return their free memory. */
#define __GFP_RETRY_MAYFAIL (1 << 14)

/* The call never returns NULL. Without memory, the program ends with a line on standard error. */
#define __GFP_NOFAIL (1 << 15)

/* Accepted; the library never retries for long. */
#define __GFP_NORETRY (1 << 16)

/* Accepted; there are no emergency reserves. */
#define __GFP_MEMALLOC (1 << 17)

/* Accepted; large memory is always one run of pages, or one mapping. */
#define __GFP_COMP (1 << 18)

/* Accepted; there are no emergency reserves. */
#define __GFP_NOMEMALLOC (1 << 19)

/* Accepted; there are no cpusets. */
#define __GFP_HARDWALL (1 << 20)

/*
 * With a function that takes a node: memory of that node, or NULL. Without effect in other
 * functions.
 */
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

/* For callers inside the I/O path. */
#define GFP_NOIO __GFP_RECLAIM

/* For callers inside a file system. */
#define GFP_NOFS (__GFP_RECLAIM | __GFP_IO)

/* For memory of user processes, in the kernel. */
#define GFP_USER (((__GFP_RECLAIM | __GFP_IO) | __GFP_FS) | __GFP_HARDWALL)

/* See __GFP_DMA. */
#define GFP_DMA __GFP_DMA

/*
 * Frees and freelists are checked (F). This flag and the five that follow make a debugged cache,
 * which is served by the engine debug: see ASHLAR_DEBUG.
 */
#define SLAB_CONSISTENCY_CHECKS (1 << 8)

/* Bytes before and after each object show writes beyond it (Z). */
#define SLAB_RED_ZONE (1 << 10)

/*
 * Free and fresh objects are filled, which shows writes after a free (P). Without effect for
 * objects with a constructor.
 */
#define SLAB_POISON (1 << 11)

/* Align objects to cache lines, to a fraction of one for small objects. */
#define SLAB_HWCACHE_ALIGN (1 << 13)

/* Accepted; see __GFP_DMA. */
#define SLAB_CACHE_DMA (1 << 14)

/* Each object keeps who allocated and who freed it, for reports (U). */
#define SLAB_STORE_USER (1 << 16)

/* Accepted; there are no lists of reclaimable pages. */
#define SLAB_RECLAIM_ACCOUNT (1 << 17)

/* The other name of SLAB_RECLAIM_ACCOUNT. */
#define SLAB_TEMPORARY SLAB_RECLAIM_ACCOUNT

/* If the cache cannot be created, the program ends with a line on standard error. */
#define SLAB_PANIC (1 << 18)

/* A line on standard error for each allocation and each free (T). */
#define SLAB_TRACE (1 << 21)

/* Accepted; nothing tracks objects here. */
#define SLAB_DEBUG_OBJECTS (1 << 22)

/* Accepted; there is no leak detector here. */
#define SLAB_NOLEAKTRACE (1 << 23)

/*
 * The cache shares its slabs with no other cache. Without this flag, caches of similar objects are
 * merged by the kernel's rules, unless the option is merge=off. Each debugging flag,
 * SLAB_NOLEAKTRACE and SLAB_FAILSLAB also prevent merging.
 */
#define SLAB_NO_MERGE (1 << 24)

/* Allocations fail as ASHLAR_FAILSLAB says (A). */
#define SLAB_FAILSLAB (1 << 25)

/* Accepted; nothing is charged to anybody. */
#define SLAB_ACCOUNT (1 << 26)

/* Accepted without effect, as in a kernel without KASAN. */
#define SLAB_KASAN (1 << 27)

/* ASHLAR_DEBUG does not hold for the cache. */
#define SLAB_NO_USER_FLAGS (1 << 28)

/* Accepted without effect, as in a kernel without KFENCE. */
#define SLAB_SKIP_KFENCE (1 << 29)

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/*
 * Creates a cache named name (up to 47 bytes, copied) for objects of object_size bytes, 1 byte
 * to 2 MiB. args may be null. The cache may share the slabs of another one with similar objects;
 * see SLAB_NO_MERGE.
 *
 * Returns NULL with errno EINVAL for a bad argument, which a line on standard error names, or with
 * ENOMEM. With SLAB_PANIC the program ends instead.
 *
 * The caller promises:
 * name is null or a string, args null or readable; the constructor is one for objects of this
 * size, which any thread may call and which does not unwind, and the engine null or a string.
 */
struct kmem_cache *kmem_cache_create(const char *name, unsigned int object_size,
    const struct kmem_cache_args *args, slab_flags_t flags);

/*
 * Destroys a cache; does nothing for a null pointer. If caches were merged, only this one's name
 * is removed, and destroying the last one destroys the shared cache. While objects are in use, the
 * cache is kept, a line on standard error reports it, and errno is EBUSY.
 *
 * The caller promises:
 * s is null or a cache that no thread uses any more.
 */
void kmem_cache_destroy(struct kmem_cache *s);

/*
 * Allocates one object. It holds the contents of its last use, or the state that the constructor
 * left. Returns NULL with errno ENOMEM without memory, EINVAL for bad flags.
 *
 * The caller promises:
 * s is a live cache.
 */
void *kmem_cache_alloc(struct kmem_cache *s, gfp_t flags);

/*
 * Allocates one object with all bytes zero. Returns NULL with errno EINVAL for a cache with a
 * constructor.
 *
 * The caller promises:
 * s is a live cache.
 */
void *kmem_cache_zalloc(struct kmem_cache *s, gfp_t flags);

/*
 * Frees an object; does nothing for a null pointer.
 *
 * The caller promises:
 * s is a live cache. object is null, or was allocated from it, was not freed since, and no
 * thread uses it any more. If the cache has a constructor, the object is in constructed state.
 */
void kmem_cache_free(struct kmem_cache *s, void *object);

/*
 * Fills p with size objects, or with none. Returns size, or 0 with errno ENOMEM, or EINVAL
 * for bad flags, a null array, or a size above INT_MAX.
 *
 * The caller promises:
 * s is a live cache; p has room for size pointers.
 */
int kmem_cache_alloc_bulk(struct kmem_cache *s, gfp_t flags, size_t size, void **p);

/*
 * Frees size objects. With a null cache, they may be of any caches, as for kfree_bulk.
 *
 * The caller promises:
 * As for kmem_cache_free, for each object. No object occurs twice, and none is null.
 */
void kmem_cache_free_bulk(struct kmem_cache *s, size_t size, void **p);

/*
 * Checks every slab and every object of a debugged cache, and reports what is wrong on standard
 * error, in the kernel's form. Returns the number of defects that were reported and of repairs
 * that were made; -1 with errno EINVAL for a cache without debug flags.
 *
 * The caller promises:
 * s is a live cache.
 */
long validate_slab_cache(struct kmem_cache *s);

/*
 * Calls each with arg for every call stack that allocated objects which are in use, the most
 * frequent first. Returns the number of stacks; -1 with errno EINVAL for a cache without
 * SLAB_STORE_USER. each may allocate and free, and may be NULL.
 *
 * The caller promises:
 * s is a live cache; each may be called with arg.
 */
long ashlar_alloc_traces(struct kmem_cache *s, void (*each)(const struct ashlar_trace*, void*), void *arg);

/*
 * As ashlar_alloc_traces, for the call stacks that freed objects which are free now.
 *
 * The caller promises:
 * As for ashlar_alloc_traces.
 */
long ashlar_free_traces(struct kmem_cache *s, void (*each)(const struct ashlar_trace*, void*), void *arg);

/*
 * Prints on standard error what an address is, whose, and, in a cache with SLAB_STORE_USER, who
 * allocated and who freed it. The address may be any, also one inside an object. Returns whether
 * it is memory of this library.
 */
bool kmem_dump_obj(void *object);

/*
 * Returns free slabs to the page allocator of the library. Returns 0 if no slab is left, else 1.
 *
 * The caller promises:
 * s is a live cache.
 */
int kmem_cache_shrink(struct kmem_cache *s);

/*
 * Returns the usable bytes of an object. For merged caches, this is the largest requested size.
 *
 * The caller promises:
 * s is a live cache.
 */
unsigned int kmem_cache_size(struct kmem_cache *s);

/*
 * Reserves size objects, so that as many calls of kmem_cache_alloc_from_sheaf succeed even
 * without free memory. Returns NULL with errno ENOMEM without memory, EINVAL for a size of 0 and
 * for bad flags. __GFP_ZERO is refused; pass it when you take an object.
 *
 * The caller promises:
 * s is a live cache, and lives longer than the sheaf.
 */
struct slab_sheaf *kmem_cache_prefill_sheaf(struct kmem_cache *s, gfp_t gfp, unsigned int size);

/*
 * Takes one of the reserved objects. Returns NULL only if none is left (errno ENOMEM) or for bad
 * flags (EINVAL). With __GFP_ZERO all its bytes are zero. kmem_cache_free frees it.
 *
 * The caller promises:
 * s is the cache that the sheaf was prefilled from; no other thread uses the sheaf meanwhile.
 */
void *kmem_cache_alloc_from_sheaf(struct kmem_cache *s, gfp_t gfp, struct slab_sheaf *sheaf);

/*
 * Reserves more objects, until there are at least size. The sheaf may move; then *sheafp is
 * updated. Returns 0, -ENOMEM or -EINVAL. After a failure the sheaf is unchanged.
 *
 * The caller promises:
 * s is the cache that the sheaf was prefilled from; no other thread uses the sheaf meanwhile.
 */
int kmem_cache_refill_sheaf(struct kmem_cache *s, gfp_t gfp, struct slab_sheaf **sheafp, unsigned int size);

/*
 * Returns a sheaf and its remaining objects to the cache. Does nothing for a null sheaf.
 *
 * The caller promises:
 * s is the cache that the sheaf was prefilled from, or null; no thread uses the sheaf any more.
 */
void kmem_cache_return_sheaf(struct kmem_cache *s, gfp_t gfp, struct slab_sheaf *sheaf);

/*
 * Returns the number of objects left in a sheaf; 0 for a null pointer.
 *
 * The caller promises:
 * sheaf is a live sheaf, or null.
 */
unsigned int kmem_cache_sheaf_size(struct slab_sheaf *sheaf);

/*
 * Allocates at least size bytes. Sizes up to 64 KiB come from caches, one for each class
 * (kmalloc-64). Larger ones are runs of pages, and those above 32 MiB have a mapping each.
 */
void *kmalloc(size_t size, gfp_t flags);

/* As kmalloc, with all bytes zero. */
void *kzalloc(size_t size, gfp_t flags);

/*
 * Allocates memory for n elements of size bytes. Returns NULL with errno ENOMEM if the product
 * overflows.
 */
void *kmalloc_array(size_t n, size_t size, gfp_t flags);

/* As kmalloc_array, with all bytes zero. */
void *kcalloc(size_t n, size_t size, gfp_t flags);

/*
 * Changes the size of memory, and moves it if needed. It is not moved if new_size is at most its
 * ksize. With a null pointer, allocates. With a new size of 0, frees and returns ZERO_SIZE_PTR.
 *
 * With __GFP_ZERO, added bytes are zero, if the memory was allocated and always resized with that
 * flag.
 *
 * The caller promises:
 * As for kfree. After success the old pointer is invalid.
 */
void *krealloc(const void *p, size_t new_size, gfp_t flags);

/*
 * As krealloc, for new_n elements of new_size bytes. Returns NULL with errno ENOMEM if the
 * product overflows.
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
 * As kfree, but a little faster, for a caller that has the requested size.
 *
 * The caller promises:
 * As for kfree. The memory was allocated by the kmalloc family for exactly size bytes.
 */
void kfree_sized(const void *object, size_t size);

/*
 * As kfree, after all bytes are overwritten with zeros.
 *
 * The caller promises:
 * As for kfree.
 */
void kfree_sensitive(const void *object);

/*
 * Frees size pointers of any caches and sizes. Skips null pointers.
 *
 * The caller promises:
 * p holds size pointers, each as for kfree. None occurs twice.
 */
void kfree_bulk(size_t size, void **p);

/*
 * Returns the usable bytes of memory of kmalloc, at least the requested size. Returns 0 for NULL
 * and ZERO_SIZE_PTR.
 *
 * The caller promises:
 * object is null, ZERO_SIZE_PTR, or live memory.
 */
size_t ksize(const void *object);

/* Returns the bytes that kmalloc reserves for a request. */
size_t kmalloc_size_roundup(size_t size);

/*
 * As kmalloc. In the kernel, such memory need not be physically contiguous; here there is no
 * difference.
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
 * As kvfree, after len bytes are overwritten with zeros.
 *
 * The caller promises:
 * As for kfree; len is at most its ksize.
 */
void kvfree_sensitive(const void *addr, size_t len);

/*
 * As kmem_cache_alloc, from a NUMA node if it has memory. With __GFP_THISNODE, other nodes are not
 * used. A node that does not exist is refused with EINVAL.
 *
 * The caller promises:
 * s is a live cache.
 */
void *kmem_cache_alloc_node(struct kmem_cache *s, gfp_t flags, int node);

/*
 * As kmalloc, from a NUMA node if it has memory. With __GFP_THISNODE, other nodes are not used. A
 * node that does not exist is refused with EINVAL. Above 32 MiB, the system chooses the node.
 */
void *kmalloc_node(size_t size, gfp_t flags, int node);

/*
 * Returns a copy of len bytes. Returns NULL with errno ENOMEM without memory, EINVAL for bad
 * flags.
 *
 * The caller promises:
 * src is readable for len bytes.
 */
void *kmemdup(const void *src, size_t len, gfp_t gfp);

/*
 * Returns a copy of len bytes with a zero byte behind them; NULL for NULL. Fails as kmemdup
 * does.
 *
 * The caller promises:
 * s is null, or readable for len bytes.
 */
char *kmemdup_nul(const char *s, size_t len, gfp_t gfp);

/*
 * Returns a copy of a string; NULL for NULL. Fails as kmemdup does.
 *
 * The caller promises:
 * s is null or a string.
 */
char *kstrdup(const char *s, gfp_t gfp);

/*
 * Returns a copy of the first max bytes of a string, or of the whole string if it is shorter,
 * with a zero byte behind them; NULL for NULL. Fails as kmemdup does.
 *
 * The caller promises:
 * s is null, a string, or readable for max bytes.
 */
char *kstrndup(const char *s, size_t max, gfp_t gfp);

/*
 * Writes the shape, tunables and figures of a cache to info.
 *
 * The caller promises:
 * s is a live cache; info may be written.
 */
void ashlar_cache_info(const struct kmem_cache *s, struct ashlar_cache_info *info);

/*
 * Changes a tunable of a cache, also while threads use the cache: cpu_partial, min_partial,
 * sheaf_capacity, remote_node_defrag_ratio, limit, batchcount or shared. It applies to all names
 * of merged caches. Returns 0 on success. Returns -EINVAL for an unknown name, a value out of
 * range, or an engine without this tunable, after a line on standard error that names the tunable
 * and the expected values. Returns -ENOMEM without memory. After an error, nothing has changed.
 *
 * The caller promises:
 * s is a live cache, name null or a string.
 */
int ashlar_set_tunable(struct kmem_cache *s, const char *name, size_t value);

/*
 * Writes a tunable of a cache to value. Returns 0 on success. Returns -EINVAL for an unknown
 * name, after a line on standard error, and for an engine without this tunable, silently.
 *
 * The caller promises:
 * s is a live cache, name null or a string; value may be written.
 */
int ashlar_tunable(const struct kmem_cache *s, const char *name, size_t *value);

/*
 * Calls each with arg for every cache, including those of kmalloc. each may allocate, and
 * create and destroy caches.
 *
 * The caller promises:
 * each may be called with arg.
 */
void ashlar_for_each_cache(void (*each)(const struct ashlar_cache_info*, void*), void *arg);

/*
 * Calls each with arg for every cache without slabs of its own, which shows the merged caches.
 * each may allocate, and create and destroy caches.
 *
 * The caller promises:
 * each may be called with arg.
 */
void ashlar_for_each_alias(void (*each)(const struct ashlar_alias_info*, void*), void *arg);

/*
 * Returns all cached objects to their slabs and all free memory to the system, at once. Returns
 * the number of 4 KiB pages released.
 */
size_t ashlar_reap(void);

/*
 * Starts the background thread, which returns free memory to the system while the program sleeps.
 * Without it, the calls of the program do that work. Returns 0 if the thread runs, -EPERM if the
 * option reaper allows no thread, -EAGAIN if the system refused it. The child of a fork has no
 * such thread.
 *
 * Must not be called from a signal handler, nor under a lock that malloc may take, because it
 * creates a thread.
 */
int ashlar_start_reaper(void);

/* Ends the background thread, if there is one. Returns when it has ended. */
void ashlar_stop_reaper(void);

/*
 * Returns the protection of the fast paths in this process: "rseq" or "lock" ("emulate" if the
 * option percpu has that value, "down" if the allocator could not start). Starts the allocator.
 */
const char *ashlar_mode(void);

/*
 * Prints the figures of this process to the file descriptor fd: the table of all caches, the
 * largest first, or one line of JSON. Returns 0, or a negative errno of a write that failed. Does
 * not allocate. Must not be called in a signal handler.
 */
int ashlar_stats_print(int fd, bool json);

/*
 * Starts a heap profile: a sample about each rate bytes, 1 to 16 MiB, with its backtrace; with
 * 1, each object. Objects of kmalloc and of the program's caches are sampled. A profile that runs
 * starts anew. While it runs, these caches have no sheaves. Returns 0, -EINVAL for a bad rate,
 * -ENOTSUP for an engine other than ashlar or without libgcc_s.so.1, -ENOMEM. Loads that library,
 * so it must not be called in a signal handler or under a lock that dlopen takes.
 */
int ashlar_profile_start(size_t rate);

/*
 * Stops the heap profile. What was sampled stays. Frees of samples are still noticed, but for
 * those by kmem_cache_free and kmem_cache_free_bulk.
 */
void ashlar_profile_stop(void);

/*
 * Writes the heap profile to a file, for ashlar profile FILE. path has the number of the
 * process in place of %p, and % in place of %%. Returns 0, or a negative errno: -EIO also if no
 * profile was started, -EINVAL for a null pointer.
 *
 * The caller promises:
 * path is null or a string.
 */
int ashlar_profile_dump(const char *path);

/* Returns the version of the library, such as "0.1.0". */
const char *ashlar_version(void);

/*
 * Sets options before the first allocation, as "key=value,key=value". That is the grammar of the
 * environment variable ASHLAR_OPTIONS, which is read later and takes precedence. percpu=emulate is
 * accepted only in that variable. Returns 0 on success, -EINVAL if a part is not an option (the
 * others are set), -EBUSY if the allocator has started. message receives the description of an
 * error; it is a buffer of size bytes, or null.
 *
 * The caller promises:
 * text is a string, message null or writable for size bytes.
 */
int ashlar_configure(const char *text, char *message, size_t size);

/*
 * Checks text for ashlar_configure, and sets nothing. Returns 0, or -EINVAL and a message.
 *
 * The caller promises:
 * As for ashlar_configure.
 */
int ashlar_check_options(const char *text, char *message, size_t size);

#ifdef __cplusplus
} /* extern "C" */
#endif /* __cplusplus */

#endif  /* ASHLAR_H */
