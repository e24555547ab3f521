/* What glibc's manual says of the malloc family. Ends with 0, or names the line that does not hold.
   */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
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
    MUST(mallopt(M_ARENA_MAX, 1) == 1 && mallopt(12345, 1) == 1 && mallopt(M_MXFAST, 1000) == 0);
    char *text = NULL;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    MUST(malloc_info(1, f) == EINVAL && malloc_info(0, f) == 0);
    fclose(f);
    MUST(strncmp(text, "<malloc version=", 16) == 0 && strstr(text, "\"malloc-") && strstr(text, "</malloc>\n"));
    free(text);
}

/* malloc(3), NOTES and ERRORS; C11 7.22.3: what else is promised. */
static void small_print(void) {
    /* The result is aligned for any type, for every size. */
    for (size_t n = 0; n < 300; n++) {
        void *p = malloc(n);
        MUST(aligned(p, _Alignof(max_align_t)));
        free(p);
    }
    /* realloc keeps the contents up to the smaller size, and may be given what any member gave. */
    unsigned char *all[4] = {malloc(5000), calloc(1, 5000), aligned_alloc(256, 5000), valloc(5000)};
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < 5000; i++) all[k][i] = i * 7;
        all[k] = realloc(all[k], 100000);
        for (int i = 0; i < 5000; i++) MUST(all[k][i] == (unsigned char)(i * 7));
        all[k] = realloc(all[k], 33);
        for (int i = 0; i < 33; i++) MUST(all[k][i] == (unsigned char)(i * 7));
        free(all[k]);
    }
    /* realloc(p, 0) is free(p), also of large ones; reallocarray(p, 0, x) and (p, x, 0) are
       realloc(p, 0). */
    MUST(realloc(malloc(100000), 0) == NULL && realloc(malloc(64 << 20), 0) == NULL);
    MUST(reallocarray(malloc(10), 0, 7) == NULL && reallocarray(malloc(10), 7, 0) == NULL);
    void *p = realloc(NULL, 0);
    MUST(p != NULL);
    free(p);
    /* Products that overflow, at each edge; those that do not. */
    FAILS(calloc(SIZE_MAX, SIZE_MAX), ENOMEM);
    FAILS(calloc((size_t)1 << 32, (size_t)1 << 32), ENOMEM);
    FAILS(calloc(3, SIZE_MAX / 2), ENOMEM);
    FAILS(reallocarray(NULL, (size_t)1 << 32, (size_t)1 << 32), ENOMEM);
    FAILS(reallocarray(NULL, 1, (size_t)PTRDIFF_MAX + 1), ENOMEM);
    p = calloc(SIZE_MAX, 0);
    MUST(p != NULL);
    free(p);
    /* Nothing larger than PTRDIFF_MAX from anybody. */
    FAILS(realloc(NULL, (size_t)PTRDIFF_MAX + 1), ENOMEM);
    FAILS(memalign(16, (size_t)PTRDIFF_MAX + 1), ENOMEM);
    FAILS(memalign(4096, (size_t)PTRDIFF_MAX + 1), ENOMEM);
    FAILS(aligned_alloc(16, (size_t)PTRDIFF_MAX + 1), ENOMEM);
    FAILS(aligned_alloc((size_t)1 << 30, (size_t)PTRDIFF_MAX - 5), ENOMEM);
    FAILS(valloc((size_t)PTRDIFF_MAX + 1), ENOMEM);
    FAILS(pvalloc((size_t)PTRDIFF_MAX + 1), ENOMEM);
    /* Alignments that are no powers of two: refused by two, rounded up by memalign. A size need be
       no multiple. */
    for (size_t align = 3; align < 5000; align = align * 2 + 1) {
        FAILS(aligned_alloc(align, align * 2), EINVAL);
        MUST(posix_memalign(&p, align, 8) == EINVAL);
        p = memalign(align, 10);
        MUST(aligned(p, (size_t)1 << (64 - __builtin_clzl(align))));
        free(p);
    }
    p = aligned_alloc(512, 13);
    MUST(aligned(p, 512) && malloc_usable_size(p) >= 13);
    free(p);
    p = memalign(0, 10);
    MUST(aligned(p, 16));
    free(p);
    MUST(posix_memalign(&p, 1, 8) == EINVAL && posix_memalign(&p, 2, 8) == EINVAL);
    /* posix_memalign of 0 bytes gives what can be freed. */
    MUST(posix_memalign(&p, 64, 0) == 0);
    free(p);
    /* pvalloc rounds up to whole pages; 0 is a page here. */
    size_t page = sysconf(_SC_PAGESIZE);
    for (size_t n = 0; n < 5 * page; n += 777) {
        char *q = pvalloc(n);
        size_t whole = (n + page - 1) / page * page;
        MUST(aligned(q, page) && malloc_usable_size(q) >= (whole ? whole : 1));
        memset(q, 1, whole);
        free(q);
        q = valloc(n);
        MUST(aligned(q, page));
        free(q);
    }
    /* All that malloc_usable_size says may be used, and a realloc to it does not move. */
    for (size_t n = 1; n < 3 << 20; n = n * 5 / 3 + 1) {
        char *q = malloc(n);
        size_t usable = malloc_usable_size(q);
        memset(q, 3, usable);
        MUST(realloc(q, usable) == q && malloc_usable_size(q) >= usable);
        free(q);
    }
}

static void kept_errno(void) {
    /* free keeps errno (POSIX 2024), whatever it takes: a flush, a run of pages, a mapping, a wake
       of the reaper. */
    static void *all[20000];
    for (int i = 0; i < 20000; i++) all[i] = malloc(i % 3000);
    void *large = malloc(1 << 20), *huge = malloc(64 << 20), *line = aligned_alloc(4096, 9000);
    for (int code = 1; code < 130; code += 43) {
        errno = code;
        free(malloc(40));
        MUST(errno == code);
    }
    errno = 99;
    for (int i = 0; i < 20000; i++) free(all[i]);
    free(large);
    free(huge);
    free(line);
    free_sized(malloc(10), 10);
    MUST(errno == 99);
    MUST(malloc_usable_size(NULL) == 0 && errno == 99);
    mallinfo2();
    MUST(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1 && mallopt(M_TRIM_THRESHOLD, 1) == 1 && errno == 99);
}

/* The text is one element, its tags pair up, its attributes are quoted. */
static void well_formed(const char *at) {
    char open[20][32];
    int depth = 0, roots = 0;
    while (*at) {
        if (*at != '<') {
            MUST(depth > 0 || *at == '\n');
            MUST(*at != '>' && *at != '&');
            at++;
            continue;
        }
        int closing = at[1] == '/';
        at += 1 + closing;
        int length = strspn(at, "abcdefghijklmnopqrstuvwxyz_-");
        MUST(length > 0 && length < 32);
        if (closing) {
            MUST(depth > 0 && strlen(open[depth - 1]) == (size_t)length && strncmp(open[depth - 1], at, length) == 0);
            depth--;
            at += length;
            MUST(*at++ == '>');
            continue;
        }
        MUST(depth < 20 && (depth > 0 || roots++ == 0));
        sprintf(open[depth], "%.*s", length, at);
        at += length;
        while (*at == ' ') {
            at += 1 + strspn(at + 1, "abcdefghijklmnopqrstuvwxyz_-");
            MUST(at[0] == '=' && at[1] == '"');
            at += 2 + strcspn(at + 2, "\"<&");
            MUST(*at++ == '"');
        }
        if (*at == '/') at++;
        else depth++;
        MUST(*at++ == '>');
    }
    MUST(depth == 0 && roots == 1);
}

static void told(void) {
    char *text = NULL;
    size_t length;
    void *some[300];
    for (int i = 0; i < 300; i++) some[i] = malloc(i * 40);
    FILE *f = open_memstream(&text, &length);
    MUST(malloc_info(0, f) == 0 && fclose(f) == 0 && strlen(text) == length);
    well_formed(text);
    free(text);
    /* mallinfo is mallinfo2 in ints; in use and free are together what is held. */
    struct mallinfo2 two = mallinfo2();
    struct mallinfo one = mallinfo();
    MUST(one.arena > 0 && two.arena > 0 && two.uordblks > 300 * 40 && one.uordblks > 300 * 40);
    MUST(two.smblks == 0 && two.fsmblks == 0 && two.usmblks == 0);
    void *huge = malloc(100 << 20);
    MUST(mallinfo2().hblkhd >= two.hblkhd + (100 << 20));
    free(huge);
    MUST(mallinfo2().hblkhd == two.hblkhd);
    for (int i = 0; i < 300; i++) free(some[i]);
    /* malloc_trim: 1 if anything went back, 0 if not, with any pad. */
    void *pages = malloc(8 << 20);
    memset(pages, 1, 8 << 20);
    free(pages);
    MUST(malloc_trim(0) == 1 && malloc_trim(0) == 0 && malloc_trim(1 << 30) == 0);
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
    small_print();
    kept_errno();
    told();
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
