/* Habit: a program defines malloc by __libc_malloc, __libc_calloc, __libc_realloc, __libc_memalign
   and __libc_free, to count. */
#include "behaviour.h"

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), __libc_free(void *);
static int depth, calls;
static void enters(void) {
    calls++;
    MUST(++depth < 5);
}
void *malloc(size_t size) {
    enters();
    void *p = __libc_malloc(size);
    depth--;
    return p;
}
void *calloc(size_t count, size_t size) {
    enters();
    void *p = __libc_calloc(count, size);
    depth--;
    return p;
}
void *realloc(void *old, size_t size) {
    enters();
    void *p = __libc_realloc(old, size);
    depth--;
    return p;
}
void *memalign(size_t align, size_t size) {
    enters();
    void *p = __libc_memalign(align, size);
    depth--;
    return p;
}
void free(void *p) { __libc_free(p); }
int main(void) {
    work(1, 3000);
    void *p = realloc(NULL, 100);
    MUST((p = realloc(p, 200000)) != NULL);
    free(p);
    free(memalign(64, 100));
    free(strdup("x"));
    MUST(calls > 3000);
    return 0;
}
