/* What every program with a cache shares. */
#define _GNU_SOURCE
#include <ashlar.h>
#include <sched.h>
#include <stddef.h>
#include <string.h>

/* Keeps the program on the CPU that it starts on. An object that is freed lies in the sheaf of a
   CPU: a thread that moves to another one in between would not find it there. */
__attribute__((constructor)) static void stay(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

/* The exit code of a program whose data the defect has changed or told. */
enum { HARM = 42 };

static inline struct kmem_cache *cache(const char *name) {
    return kmem_cache_create(name, 64, NULL, SLAB_NO_MERGE);
}

static inline char *take(struct kmem_cache *s) {
    return kmem_cache_alloc(s, GFP_KERNEL);
}

/* Starts the allocator. */
static inline void start(void) {
    kfree(kmalloc(8, GFP_KERNEL));
}
