/* A program on libashlar whose sites are known: for each, it prints the name, the cache of the
 * objects, the number that are live, and the bytes of one. With the argument `-`, it keeps some
 * objects, again and again, and frees others, until it is ended. */
#include <ashlar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SITE(name, call)                                                                           \
    static long name##_live;                                                                       \
    __attribute__((noinline)) static void *name(size_t size) {                                     \
        char *volatile at = call;                                                                  \
        (void)size;                                                                                \
        if (!at) abort();                                                                          \
        at[0] = 1;                                                                                 \
        name##_live++;                                                                             \
        return at;                                                                                 \
    }

static struct kmem_cache *packets, *late;

SITE(site_small, kmalloc(size, GFP_KERNEL))
SITE(site_zeroed, kzalloc(size, GFP_KERNEL))
SITE(site_array, kmalloc_array(size / 10, 10, GFP_KERNEL))
SITE(site_grown, krealloc(kmalloc(8, GFP_KERNEL), size, GFP_KERNEL))
SITE(site_large, kmalloc(size, GFP_KERNEL))
SITE(site_mapped, krealloc(kmalloc(40 << 20, GFP_KERNEL), size, GFP_KERNEL))
SITE(site_packet, kmem_cache_alloc(packets, GFP_KERNEL))
SITE(site_late, kmem_cache_zalloc(late, GFP_KERNEL))

__attribute__((noinline)) static void site_bulk(void **out, size_t count) {
    if (!kmem_cache_alloc_bulk(packets, GFP_KERNEL, count, out)) abort();
}

static void print(const char *site, const char *cache, long live, long size) {
    printf("%s %s %ld %ld\n", site, cache, live, size);
}

static void go_on(void) {
    puts("ready");
    fflush(stdout);
    for (;;) {
        site_packet(0);
        site_small(100);
        for (int i = 0; i < 100; i++) kmem_cache_free(packets, site_packet(0)), kfree(site_array(500));
        usleep(1000);
    }
}

enum { MANY = 20000 };

int main(int argc, char **argv) {
    static void *small[MANY], *other[MANY], *packet[MANY];
    void *bulk[64];
    const char *file = argc > 1 ? argv[1] : NULL;
    packets = kmem_cache_create("packet", 300, NULL, SLAB_NO_MERGE);
    if (!packets) return 1;
    if (file && !strcmp(file, "-")) go_on();
    /* Objects of before the profile, on sheaves and in use: they are no samples. */
    for (int i = 0; i < MANY; i++) packet[i] = kmem_cache_alloc(packets, GFP_KERNEL);
    for (int i = 0; i < MANY; i += 2) kmem_cache_free(packets, packet[i]);
    if (file && ashlar_profile_start(argc > 2 ? (size_t)atol(argv[2]) : 1)) return 2;
    late = kmem_cache_create("late", 72, NULL, SLAB_NO_MERGE);
    if (!late) return 1;
    for (int i = 1; i < MANY; i += 2) kmem_cache_free(packets, packet[i]);

    /* Half of them are freed, by each way that there is. */
    for (int i = 0; i < MANY; i++) small[i] = site_small(100);
    for (int i = 0; i < MANY; i += 2, site_small_live--)
        i % 4 ? kfree(small[i]) : kfree_sized(small[i], 100);
    for (int i = 0; i < MANY; i++) other[i] = i % 2 ? site_zeroed(500) : site_array(500);
    kfree_bulk(MANY / 2, other);
    site_zeroed_live -= MANY / 4, site_array_live -= MANY / 4;
    for (int i = 0; i < 1000; i++) {
        char *grown = site_grown(3000);
        if (i % 2) continue;
        kfree(grown), site_grown_live--;
    }
    for (int i = 0; i < 100; i++) {
        char *large = site_large(200000);
        if (i % 2) continue;
        kfree(large), site_large_live--;
    }
    site_mapped(60 << 20);
    for (int i = 0; i < MANY; i++) packet[i] = site_packet(0);
    for (int i = 0; i < MANY; i += 4, site_packet_live--) kmem_cache_free(packets, packet[i]);
    for (int i = 1; i < MANY; i += 4, site_packet_live--) kfree(packet[i]);
    for (int i = 0; i < MANY; i++) packet[i] = site_late(0);
    kmem_cache_free_bulk(late, MANY / 2, packet);
    site_late_live -= MANY / 2;
    site_bulk(bulk, 64);
    kmem_cache_free_bulk(packets, 32, bulk);

    print("site_small", "kmalloc-128", site_small_live, 100);
    /* kzalloc asks for all bytes of the class, because krealloc may use them. */
    print("site_zeroed", "kmalloc-512", site_zeroed_live, 512);
    print("site_array", "kmalloc-512", site_array_live, 500);
    print("site_grown", "kmalloc-4k", site_grown_live, 3000);
    print("site_large", "large", site_large_live, 200000);
    /* A sample keeps the size that was allocated. */
    print("site_mapped", "large", 1, 40 << 20);
    print("site_packet", "packet", site_packet_live, 300);
    print("site_late", "late", site_late_live, 72);
    print("site_bulk", "packet", 32, 300);
    if (file) {
        if (ashlar_profile_dump(file)) return 3;
        ashlar_profile_stop();
        /* The caches have their sheaves again. */
        size_t capacity = 0;
        if (ashlar_tunable(packets, "sheaf_capacity", &capacity) || capacity == 0) return 4;
        for (int i = 0; i < MANY; i++) packet[i] = site_packet(0);
        for (int i = 0; i < MANY; i++) kmem_cache_free(packets, packet[i]);
    }
    puts("ready");
    return 0;
}
