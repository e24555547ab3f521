/* A first program: a cache, a reserve, memory of any size. cc quick_start.c -lashlar */

#include <ashlar.h>
#include <stdio.h>

struct request {
    unsigned long id;
    unsigned char body[200];
};

int main(void)
{
    /* A cache for one type. NULL: the defaults; else a struct kmem_cache_args. */
    struct kmem_cache *requests = kmem_cache_create("request", sizeof(struct request), NULL, SLAB_PANIC);
    struct request *request = kmem_cache_zalloc(requests, GFP_KERNEL);
    struct slab_sheaf *reserve;
    char *buffer;

    if (request == NULL)
        return 1;
    request->id = 1;
    request->body[0] = 42;
    printf("request %lu starts with %d\n", request->id, request->body[0]);
    kmem_cache_free(requests, request);

    /* Ten objects are set aside: taking them cannot fail, whatever becomes of memory. */
    reserve = kmem_cache_prefill_sheaf(requests, GFP_KERNEL, 10);
    if (reserve == NULL)
        return 1;
    request = kmem_cache_alloc_from_sheaf(requests, GFP_KERNEL, reserve);
    kmem_cache_free(requests, request);
    kmem_cache_return_sheaf(requests, GFP_KERNEL, reserve);
    kmem_cache_destroy(requests);

    /* Any size. */
    buffer = kmalloc(100, GFP_KERNEL);
    kfree(buffer);
    printf("sections by %s\n", ashlar_mode());
    return 0;
}
