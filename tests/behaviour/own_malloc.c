/* Promise: a program that defines malloc and its relatives itself uses its own, libraries too. */
#include "behaviour.h"

static char arena[64 << 20] __attribute__((aligned(16)));
static size_t taken;
static int mine(const void *p) { return (const char *)p >= arena && (const char *)p < arena + sizeof arena; }
void *malloc(size_t size) {
    size_t whole = (size + 31) & ~15ul, at = __atomic_fetch_add(&taken, whole, __ATOMIC_SEQ_CST);
    if (size > sizeof arena || at + whole > sizeof arena) return errno = ENOMEM, NULL;
    *(size_t *)(arena + at) = size;
    return arena + at + 16;
}
void free(void *p) { (void)p; }
void *calloc(size_t count, size_t size) { return malloc(count * size); }
void *realloc(void *p, size_t size) {
    void *q = malloc(size);
    if (p && q) {
        size_t old = ((size_t *)p)[-2];
        memcpy(q, p, old < size ? old : size);
    }
    return q;
}
void *aligned_alloc(size_t align, size_t size) {
    char *p = malloc(size + align);
    return p ? (void *)(((uintptr_t)p + align - 1) & ~(align - 1)) : NULL;
}
void *memalign(size_t align, size_t size) { return aligned_alloc(align, size); }
int posix_memalign(void **p, size_t align, size_t size) { return (*p = aligned_alloc(align, size)) ? 0 : ENOMEM; }

static void *runs(void *unused) {
    char *text;
    MUST(asprintf(&text, "%d", 5) == 1 && mine(text));
    free(text);
    return unused;
}
int main(void) {
    MUST(mine(malloc(10)) && mine(strdup("x")));
    pthread_t t;
    MUST(pthread_create(&t, NULL, runs, NULL) == 0 && pthread_join(t, NULL) == 0);
    free(realpath("/usr/bin", NULL));
    pid_t pid = fork();
    if (pid == 0) {
        runs(NULL);
        _exit(7);
    }
    MUST(child_ended(pid, 7));
    return 0;
}
