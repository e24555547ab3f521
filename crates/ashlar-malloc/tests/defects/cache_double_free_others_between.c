/* An object of a cache is freed twice, another one between. */
#include "cache.h"

int main(void) {
    char *volatile a;
    struct kmem_cache *s = cache("victim");
    char *volatile b = take(s);
    a = take(s);
    kmem_cache_free(s, a);
    kmem_cache_free(s, b);
    kmem_cache_free(s, a);
    a = take(s), b = take(s);
    return a == take(s) ? HARM : 0;
    return 0;
}
