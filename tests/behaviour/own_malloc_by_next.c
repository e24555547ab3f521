/* Habit: tools define malloc by dlsym(RTLD_NEXT), which itself allocates. */
#include "behaviour.h"

static void *(*next_malloc)(size_t), *(*next_realloc)(void *, size_t), (*next_free)(void *);
static void *(*next_calloc)(size_t, size_t);
static char early[4096];
static int finding, calls;
static size_t used;
static void finds(void) {
    if (finding || next_free) return;
    finding = 1;
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    next_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    *(void **)&next_free = dlsym(RTLD_NEXT, "free");
    finding = 0;
}
static void *gives(size_t size) {
    void *p = early + used;
    used += (size + 15) & ~15ul;
    MUST(used <= sizeof early);
    return p;
}
void *malloc(size_t size) {
    finds();
    calls++;
    return next_malloc ? next_malloc(size) : gives(size);
}
void *calloc(size_t count, size_t size) {
    finds();
    return next_calloc ? next_calloc(count, size) : gives(count * size);
}
void *realloc(void *p, size_t size) {
    finds();
    return next_realloc(p, size);
}
void free(void *p) {
    finds();
    if ((char *)p < early || (char *)p >= early + sizeof early) next_free(p);
}
int main(void) {
    work(1, 3000);
    free(strdup("x"));
    threaded_work(2);
    MUST(calls > 1000);
    return 0;
}
