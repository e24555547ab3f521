/*
 * <linux/slab.h> for kernel-style code on ashlar. Functions, flags and structures are those of ashlar.h; here are
 * the kernel's macros, and the functions that it spells out of others.
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
 * The kernel tells them apart by the type of the third argument (_Generic). Here it is by their number, which
 * works in C99 and C++ too.
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

#ifdef __cplusplus
}
#endif

#endif
