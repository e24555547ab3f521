/* What glibc's manual says of the malloc family. Ends with 0, or names the line that does not hold. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void free_sized(void *, size_t);
extern void free_aligned_sized(void *, size_t, size_t);
extern void *__libc_memalign(size_t, size_t);

#define MUST(holds)                                                   \
    do {                                                              \
        if (!(holds)) {                                               \
            fprintf(stderr, "line %d: %s\n", __LINE__, #holds);       \
            _exit(1);                                                 \
        }                                                             \
    } while (0)
#define FAILS(call, code)           \
    do {                            \
        errno = 0;                  \
        MUST((call) == NULL);       \
        MUST(errno == (code));      \
    } while (0)

static int aligned(void *p, size_t to) { return p != NULL && (uintptr_t)p % to == 0; }

static void sizes(void) {
    void *a = malloc(0), *b = malloc(0), *c = calloc(0, 8), *d = calloc(8, 0);
    MUST(a && b && c && d && a != b && b != c && c != d);
    free(a); free(b); free(c); free(d);
    for (size_t n = 1; n < 200000; n += n < 5000 ? 1 : 997) {
        unsigned char *p = malloc(n);
        MUST(aligned(p, 16) && malloc_usable_size(p) >= n);
        memset(p, 0xa5, malloc_usable_size(p));
        free(p);
        p = calloc(1, n);
        MUST(aligned(p, 16));
        for (size_t i = 0; i < n; i++) MUST(p[i] == 0);
        free(p);
    }
    MUST(malloc_usable_size(NULL) == 0);
}

static void failures(void) {
    size_t most = PTRDIFF_MAX;
    FAILS(malloc(most + 1), ENOMEM);
    FAILS(malloc(SIZE_MAX), ENOMEM);
    FAILS(malloc(SIZE_MAX - 14), ENOMEM);
    FAILS(malloc(most), ENOMEM);
    FAILS(calloc(SIZE_MAX / 2, 3), ENOMEM);
    FAILS(calloc(1, most + 1), ENOMEM);
    char *p = malloc(10);
    strcpy(p, "as it was");
    FAILS(realloc(p, most + 1), ENOMEM);
    FAILS(realloc(p, most), ENOMEM);
    FAILS(reallocarray(p, SIZE_MAX / 2, 3), ENOMEM);
    MUST(strcmp(p, "as it was") == 0);
    free(p);
    FAILS(aligned_alloc(0, 8), EINVAL);
    FAILS(aligned_alloc(24, 48), EINVAL);
    FAILS(aligned_alloc(64, SIZE_MAX - 10), ENOMEM);
    FAILS(aligned_alloc((size_t)1 << 62, 8), ENOMEM);
    FAILS(memalign((SIZE_MAX >> 1) + 2, 8), EINVAL);
    FAILS(valloc(SIZE_MAX), ENOMEM);
    FAILS(pvalloc(SIZE_MAX), ENOMEM);
    void *kept = &kept;
    errno = 77;
    MUST(posix_memalign(&kept, 24, 8) == EINVAL && posix_memalign(&kept, 4, 8) == EINVAL);
    MUST(posix_memalign(&kept, 0, 8) == EINVAL && posix_memalign(&kept, 64, most) == ENOMEM);
    MUST(kept == &kept && errno == 77);
    /* The program can go on. */
    p = malloc(100);
    MUST(p != NULL);
    free(p);
}

static void alignments(void) {
    for (size_t align = 1; align <= (size_t)64 << 20; align *= 2) {
        for (size_t n = 0; n < 70000; n = n * 3 + 1) {
            void *p;
            if (align >= sizeof(void *)) {
                MUST(posix_memalign(&p, align, n) == 0 && aligned(p, align) && malloc_usable_size(p) >= n);
                memset(p, 1, n);
                free_aligned_sized(p, align, n);
            }
            p = memalign(align, n);
            MUST(aligned(p, align));
            void *q = aligned_alloc(align, n);
            MUST(aligned(q, align) && q != p);
            memset(q, 2, n);
            free(p);
            free(q);
        }
    }
    void *p = memalign(24, 8);
    MUST(aligned(p, 32));
    free(p);
    p = __libc_memalign(64, 8);
    MUST(aligned(p, 64));
    free(p);
    size_t page = sysconf(_SC_PAGESIZE);
    p = valloc(10);
    MUST(aligned(p, page));
    free(p);
    p = pvalloc(page + 1);
    MUST(aligned(p, page) && malloc_usable_size(p) >= 2 * page);
    free(p);
}

static void reallocs(void) {
    char *p = realloc(NULL, 10);
    MUST(p != NULL);
    strcpy(p, "ashlar");
    size_t n = 10;
    while (n < (size_t)200 << 20) {
        n = n * 3 / 2 + 1;
        p = realloc(p, n);
        MUST(aligned(p, 16) && strcmp(p, "ashlar") == 0 && malloc_usable_size(p) >= n);
        p[n - 1] = 7;
    }
    while (n > 10) {
        n = n * 2 / 3;
        p = realloc(p, n);
        MUST(aligned(p, 16) && strncmp(p, "ashlar", 6) == 0 && malloc_usable_size(p) >= n);
    }
    /* Memory is not kept for nothing. */
    MUST(malloc_usable_size(p) <= 64);
    MUST(realloc(p, 0) == NULL);
    /* A run of pages grows in place when what follows is free. */
    char *run = malloc(100000), *again = realloc(run, 101000);
    MUST(run == again);
    again = realloc(run, 70000);
    MUST(run == again && malloc_usable_size(run) < 80000);
    free(run);
    p = reallocarray(NULL, 10, 10);
    MUST(p != NULL);
    free_sized(p, 100);
    for (int i = 0; i < 1000; i++) { /* zeroed again after use, whatever it was before */
        unsigned char *q = calloc(1, 100000);
        MUST(q != NULL && q[0] == 0 && q[50000] == 0 && q[99999] == 0);
        memset(q, 1, 100000);
        free(q);
    }
}

static void errnos(void) {
    errno = 77;
    void *all[2000];
    for (int i = 0; i < 2000; i++) all[i] = malloc(i * 37);
    MUST(errno == 77);
    for (int i = 0; i < 2000; i++) free(all[i]);
    void *huge = malloc(100 << 20);
    free(huge);
    malloc_trim(0);
    free(NULL);
    MUST(errno == 77);
}

static void figures(void) {
    struct mallinfo2 before = mallinfo2();
    void *p = malloc(1000000);
    struct mallinfo2 after = mallinfo2();
    MUST(after.uordblks >= before.uordblks + 1000000 && after.uordblks < before.uordblks + 1100000);
    free(p);
    MUST(malloc_trim(0) == 1 && malloc_trim(0) == 0);
    MUST(mallopt(M_ARENA_MAX, 1) == 1 && mallopt(12345, 1) == 0);
    char *text = NULL;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    MUST(malloc_info(1, f) == EINVAL && malloc_info(0, f) == 0);
    fclose(f);
    MUST(strncmp(text, "<malloc version=", 16) == 0 && strstr(text, "\"malloc-") && strstr(text, "</malloc>\n"));
    free(text);
}

static pthread_key_t key;
static void at_thread_end(void *p) {
    free(p);
    free(malloc(333));
}
static void *thread(void *unused) {
    (void)unused;
    pthread_setspecific(key, malloc(77));
    for (int i = 0; i < 2000; i++) free(malloc(i));
    return malloc(5);
}
static void at_end(void) { free(malloc(4321)); }
__attribute__((constructor)) static void early(void) { free(malloc(1234)); }
__attribute__((destructor)) static void late(void) { free(malloc(1234)); }

int main(void) {
    atexit(at_end);
    sizes();
    failures();
    alignments();
    reallocs();
    errnos();
    figures();
    pthread_key_create(&key, at_thread_end);
    for (int i = 0; i < 200; i++) {
        pthread_t t[4];
        void *left;
        for (int k = 0; k < 4; k++) MUST(pthread_create(&t[k], NULL, thread, NULL) == 0);
        for (int k = 0; k < 4; k++) {
            MUST(pthread_join(t[k], &left) == 0);
            free(left);
        }
    }
    puts("well");
    return 0;
}
