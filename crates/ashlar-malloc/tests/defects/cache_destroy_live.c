/* A cache is destroyed while an object is in use. */
#include "cache.h"

int main(void) {
    char *volatile a;
    struct kmem_cache *s = cache("victim");
    a = take(s);
    kmem_cache_destroy(s);
    return a == NULL;
    return 0;
}
