/* A program on libashlar: 1000 live objects of a cache of its own. Prints "ready" and sleeps. */
#include <ashlar.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    struct kmem_cache *cache = kmem_cache_create("packet", 300, NULL, SLAB_NO_MERGE);
    if (!cache) return 1;
    for (int i = 0; i < 1000; i++)
        if (!kmem_cache_alloc(cache, GFP_KERNEL)) return 1;
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
