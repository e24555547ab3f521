/*
 * <linux/slab.h> for kernel-style code on ashlar. Functions, flags and structures are those of
 * ashlar.h; here are the kernel's macros, and the functions that it spells out of others.
 */
#ifndef ASHLAR_LINUX_SLAB_H
#define ASHLAR_LINUX_SLAB_H

#include <linux/gfp.h>
#include <linux/overflow.h>
#include <linux/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * kmem_cache_create comes in two forms, as in the kernel:
 *     kmem_cache_create(name, size, args, flags)
 *     kmem_cache_create(name, size, align, flags, ctor)
 * The kernel tells them apart by the type of the third argument (_Generic). Here it is by their
 * number, which works in C99 and C++ too.
 */
static inline struct kmem_cache *__kmem_cache_create(const char *name, unsigned int size, unsigned int align,
                                                     slab_flags_t flags, void (*ctor)(void *))
{
    struct kmem_cache_args args = ASHLAR_CACHE_ARGS_INIT;

    args.align = align;
    args.ctor = ctor;
    return kmem_cache_create(name, size, &args, flags);
}

static inline struct kmem_cache *__kmem_cache_create_args(const char *name, unsigned int size,
                                                          const struct kmem_cache_args *args, slab_flags_t flags)
{
    return kmem_cache_create(name, size, args, flags);
}

static inline struct kmem_cache *kmem_cache_create_usercopy(const char *name, unsigned int size, unsigned int align,
                                                            slab_flags_t flags, unsigned int useroffset,
                                                            unsigned int usersize, void (*ctor)(void *))
{
    struct kmem_cache_args args = ASHLAR_CACHE_ARGS_INIT;

    args.align = align;
    args.ctor = ctor;
    args.useroffset = useroffset;
    args.usersize = usersize;
    return kmem_cache_create(name, size, &args, flags);
}

#define ASHLAR_FIFTH(_1, _2, _3, _4, _5, name, ...) name
#define kmem_cache_create(...) \
    ASHLAR_FIFTH(__VA_ARGS__, __kmem_cache_create, __kmem_cache_create_args, , , , )(__VA_ARGS__)

/* A cache named and sized as a structure. */
#define KMEM_CACHE(__struct, __flags) \
    __kmem_cache_create(#__struct, sizeof(struct __struct), __alignof__(struct __struct), (__flags), NULL)

/* The same; __field may be copied to user space in the kernel. */
#define KMEM_CACHE_USERCOPY(__struct, __flags, __field) \
    kmem_cache_create_usercopy(#__struct, sizeof(struct __struct), __alignof__(struct __struct), (__flags), \
                               offsetof(struct __struct, __field), sizeof(((struct __struct *)0)->__field), NULL)

/* Nothing is charged to anybody: the list of the least recently used is the caller's own business.
   */
struct list_lru;
static inline void *kmem_cache_alloc_lru(struct kmem_cache *s, struct list_lru *lru, gfp_t flags)
{
    (void)lru;
    return kmem_cache_alloc(s, flags);
}

static inline void *kzalloc_node(size_t size, gfp_t flags, int node)
{
    return kmalloc_node(size, flags | __GFP_ZERO, node);
}

/* Products that overflow saturate, and no allocation grants SIZE_MAX bytes. */
static inline void *kmalloc_array_node(size_t n, size_t size, gfp_t flags, int node)
{
    return kmalloc_node(size_mul(n, size), flags, node);
}

static inline void *kcalloc_node(size_t n, size_t size, gfp_t flags, int node)
{
    return kmalloc_array_node(n, size, flags | __GFP_ZERO, node);
}

static inline void *kvmalloc_node(size_t size, gfp_t flags, int node)
{
    return kmalloc_node(size, flags, node);
}

static inline void *kvzalloc(size_t size, gfp_t flags)
{
    return kzalloc(size, flags);
}

static inline void *kvzalloc_node(size_t size, gfp_t flags, int node)
{
    return kzalloc_node(size, flags, node);
}

static inline void *kvmalloc_array(size_t n, size_t size, gfp_t flags)
{
    return kmalloc_array(n, size, flags);
}

static inline void *kvcalloc(size_t n, size_t size, gfp_t flags)
{
    return kcalloc(n, size, flags);
}

/* Callers are not tracked. */
#define kmalloc_track_caller(size, flags) kmalloc(size, flags)
#define kmalloc_node_track_caller(size, flags, node) kmalloc_node(size, flags, node)

/* Objects by type or by variable: kmalloc_obj(*p) or kmalloc_obj(struct thing, GFP_ATOMIC). */
#define ASHLAR_THIRD(_1, _2, name, ...) name
#define ASHLAR_FOURTH(_1, _2, _3, name, ...) name
#define ASHLAR_OBJ(alloc, what, flags) ((__typeof__(what) *)alloc(sizeof(what), flags))
#define ASHLAR_OBJS(alloc, what, count, flags) ((__typeof__(what) *)alloc(size_mul(sizeof(what), count), flags))
#define ASHLAR_OBJ_KERNEL(alloc, what) ASHLAR_OBJ(alloc, what, GFP_KERNEL)
#define ASHLAR_OBJS_KERNEL(alloc, what, count) ASHLAR_OBJS(alloc, what, count, GFP_KERNEL)
#define ASHLAR_PICK_OBJ(alloc, ...) ASHLAR_THIRD(__VA_ARGS__, ASHLAR_OBJ, ASHLAR_OBJ_KERNEL, )(alloc, __VA_ARGS__)
#define ASHLAR_PICK_OBJS(alloc, ...) \
    ASHLAR_FOURTH(__VA_ARGS__, ASHLAR_OBJS, ASHLAR_OBJS_KERNEL, , )(alloc, __VA_ARGS__)
#define kmalloc_obj(...) ASHLAR_PICK_OBJ(kmalloc, __VA_ARGS__)
#define kzalloc_obj(...) ASHLAR_PICK_OBJ(kzalloc, __VA_ARGS__)
#define kmalloc_objs(...) ASHLAR_PICK_OBJS(kmalloc, __VA_ARGS__)
#define kzalloc_objs(...) ASHLAR_PICK_OBJS(kzalloc, __VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif
