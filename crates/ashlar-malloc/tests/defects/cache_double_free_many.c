/* Three hundred objects of a cache are freed twice. */
#include "cache.h"

int main(void) {
    struct kmem_cache *s = cache("victim");
    char *all[300];
    for (int i = 0; i < 300; i++) all[i] = take(s);
    for (int i = 0; i < 600; i++) kmem_cache_free(s, all[i % 300]);
    kmem_cache_shrink(s);
    return 0;
}
