/* Programs whose sites of allocation are known. The first argument says which. Those of `sites`
 * print a line for each site: its name, and the objects, their bytes, and the size of one that are
 * live at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SITE(name)                                                                                 \
    static long name##_live;                                                                       \
    __attribute__((noinline)) static void *name(size_t size) {                                     \
        char *volatile at = malloc(size);                                                          \
        at[0] = 1;                                                                                 \
        __atomic_fetch_add(&name##_live, 1, __ATOMIC_RELAXED);                                     \
        return at;                                                                                 \
    }

SITE(site_small)
SITE(site_middle)
SITE(site_page)
SITE(site_large)
SITE(site_mapped)
SITE(site_passing)

__attribute__((noinline)) static void *site_zeroed(size_t size) {
    char *volatile at = calloc(1, size);
    at[0] = 1;
    return at;
}

__attribute__((noinline)) static void *site_aligned(size_t size) {
    void *at = NULL;
    if (posix_memalign(&at, 64, size)) abort();
    *(volatile char *)at = 1;
    return at;
}

__attribute__((noinline)) static void *site_grown(size_t size) {
    char *volatile at = realloc(malloc(16), size);
    at[0] = 1;
    return at;
}

static void report(const char *name, long objects, long size) {
    printf("%s %ld %ld %ld\n", name, objects, objects * size, size);
}

/* Long-lived objects among many that pass, and each second long-lived one is freed. */
static int sites(void) {
    static void *small[200000], *middle[30000], *page[4000], *large[600], *mapped[2];
    long n_small = 0, n_middle = 0, n_page = 0, n_large = 0, zeroed = 0, aligned = 0, grown = 0;
    for (int i = 0; i < 200000; i++) {
        void *passing[20];
        for (int j = 0; j < i % 20; j++) passing[j] = site_passing(16 + 40 * j);
        small[n_small++] = site_small(48);
        if (i % 7 == 0) middle[n_middle++] = site_middle(700);
        if (i % 50 == 0) page[n_page++] = site_page(9000);
        if (i % 400 == 0) large[n_large++] = site_large(150000);
        if (i % 20 == 0) site_zeroed(320), zeroed++;
        if (i % 40 == 0) site_aligned(512), aligned++;
        if (i % 40 == 20) site_grown(1100), grown++;
        for (int j = 0; j < i % 20; j++) free(passing[j]);
    }
    for (int i = 0; i < 2; i++) mapped[i] = site_mapped(40 << 20);
    mapped[1] = realloc(mapped[1], 80 << 20);
    free(mapped[0]);
    long freed_small = 0, freed_middle = 0;
    for (int i = 0; i < n_small; i += 2) free(small[i]), freed_small++;
    for (int i = 0; i < n_middle; i += 3) free(middle[i]), freed_middle++;
    report("site_small", n_small - freed_small, 48);
    report("site_middle", n_middle - freed_middle, 700);
    report("site_page", n_page, 9000);
    report("site_large", n_large, 150000);
    report("site_mapped", 1, 40 << 20);
    report("site_zeroed", zeroed, 320);
    report("site_aligned", aligned, 512);
    report("site_grown", grown, 1100);
    report("site_passing", 0, 400);
    return 0;
}

#define OF_A_THREAD 20000
static void *kept[4][OF_A_THREAD];
static void *passed_on[4][OF_A_THREAD];

static void *worker(void *number) {
    long n = (long)number;
    char name[16];
    snprintf(name, sizeof name, "worker-%ld", n);
    pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < OF_A_THREAD; i++) {
        kept[n][i] = site_small(200);
        passed_on[n][i] = site_passing(300);
        if (i % 3 == 0) free(site_page(5000));
    }
    return NULL;
}

/* Threads allocate, and other threads free. */
static int threads(void) {
    pthread_t all[4];
    for (long n = 0; n < 4; n++) pthread_create(&all[n], NULL, worker, (void *)n);
    for (int n = 0; n < 4; n++) pthread_join(all[n], NULL);
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < OF_A_THREAD; i++) free(passed_on[n][i]);
    report("site_small", 4 * OF_A_THREAD, 200);
    report("site_passing", 0, 300);
    report("site_page", 0, 5000);
    return 0;
}

static volatile int never;
__attribute__((noinline)) static void *deeper(int depth) {
    void *at = depth == 0 ? site_small(100) : deeper(depth - 1);
    if (never) puts("never");
    return at;
}

/* One allocation below 200 calls, and one below three. */
static int deep(void) {
    return !deeper(200) || !deeper(3);
}

static int busy_forks(void) {
    static void *of_parent[1000];
    for (int i = 0; i < 1000; i++) of_parent[i] = site_small(100);
    pthread_t all[2];
    for (long n = 0; n < 2; n++) pthread_create(&all[n], NULL, worker, (void *)n);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            if (i != 19) _exit(0);
            /* The child has its parent's samples, and its own. */
            for (int j = 0; j < 1000; j++) free(of_parent[j]);
            for (int j = 0; j < 500; j++) site_middle(700);
            exit(0);
        }
        int status = 1;
        if (waitpid(child, &status, 0) != child || status != 0) return 1;
        if (i == 19) printf("child %d\n", (int)child);
    }
    for (int n = 0; n < 2; n++) pthread_join(all[n], NULL);
    return 0;
}

/* The functions for the program itself, which the preloaded library exports. */
static int by_itself(const char *path) {
    int (*start)(size_t) = (int (*)(size_t))dlsym(RTLD_DEFAULT, "ashlar_profile_start");
    void (*stop)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "ashlar_profile_stop");
    int (*dump)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "ashlar_profile_dump");
    if (!start || !stop || !dump) return 1;
    site_page(9000);
    if (dump(path) != -EIO) return 2;
    if (start(0) != -EINVAL) return 3;
    if (start((16 << 20) + 1) != -EINVAL) return 4;
    stop();
    if (start(1) != 0) return 5;
    void *first = site_small(100), *second = site_small(100);
    site_middle(700);
    stop();
    site_large(150000);
    site_page(9000);
    free(first);
    if (dump("/no/such/folder/file") != -ENOENT) return 6;
    if (dump(NULL) != -EINVAL) return 7;
    if (dump(path) != 0) return 8;
    /* A second profile starts anew, and a free of a sample of the first one is a free. */
    if (start(1) != 0) return 9;
    free(second);
    if (site_passing(100) != second) return 10;
    stop();
    free(second);
    return 0;
}

int main(int count, char **words) {
    const char *which = count > 1 ? words[1] : "";
    if (!strcmp(which, "sites")) return sites();
    if (!strcmp(which, "threads")) return threads();
    if (!strcmp(which, "deep")) return deep();
    if (!strcmp(which, "forks")) return busy_forks();
    if (!strcmp(which, "itself")) return by_itself(words[2]);
    return 99;
}
