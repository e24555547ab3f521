/* A library that comes and goes: allocates at load, in threads' ends, and at unload. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_key_t key;
static char *kept;
static void at_thread_end(void *p) {
    free(p);
    free(malloc(4000));
}
__attribute__((constructor)) static void load(void) {
    kept = strdup("from the constructor");
    pthread_key_create(&key, at_thread_end);
}
__attribute__((destructor)) static void unload(void) {
    pthread_key_delete(key);
    free(kept);
    free(malloc(100000));
}
void *plugin(void *p) {
    pthread_setspecific(key, malloc(77));
    return realloc(p, 5000);
}
