/* Threads allocate, and hold reserves, while the program forks; children allocate too, and nothing
   hangs. */
#define _GNU_SOURCE
#include <ashlar.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

static struct kmem_cache *cache;
static volatile int done;

static void some_work(void)
{
    struct slab_sheaf *sheaf = kmem_cache_prefill_sheaf(cache, GFP_KERNEL, 20);
    void *a = kmem_cache_alloc_from_sheaf(cache, GFP_KERNEL, sheaf), *b = kmalloc(3000, GFP_KERNEL);
    void *c = kmem_cache_alloc(cache, GFP_KERNEL);

    CHECK(a != NULL && b != NULL && c != NULL);
    kmem_cache_return_sheaf(cache, GFP_KERNEL, sheaf);
    kmem_cache_free(cache, a);
    kfree(b);
    kfree(c);
}

static void *work(void *arg)
{
    while (!done)
        some_work();
    return arg;
}

int main(void)
{
    pthread_t threads[4];
    int i, status;

    cache = kmem_cache_create("forked", 300, NULL, 0);
    for (i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (i = 0; i < 100; i++) {
        pid_t child = fork();

        CHECK(child >= 0);
        if (child == 0) {
            struct kmem_cache *own = kmem_cache_create("own", 100, NULL, 0);

            some_work();
            kmem_cache_destroy(own);
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    done = 1;
    for (i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(kmem_cache_shrink(cache) == 0);
    kmem_cache_destroy(cache);
    puts("well");
    return 0;
}
