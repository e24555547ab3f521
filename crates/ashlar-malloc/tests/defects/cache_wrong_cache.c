/* An object is freed to another cache, which hands it out. */
#include "cache.h"

int main(void) {
    char *volatile a;
    struct kmem_cache *s = cache("victim"), *other = cache("other");
    a = take(s);
    kmem_cache_free(other, a);
    return take(other) == a ? HARM : 0;
    return 0;
}
