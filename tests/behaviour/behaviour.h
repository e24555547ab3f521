/* What the programs here share. A program returns 0 if the promise holds and SKIPPED if the system
   does not allow the question; MUST ends it with one line that names what does not hold. */
#ifndef BEHAVIOUR_H
#define BEHAVIOUR_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "watchdog.h"

#define SKIPPED 77
#define MUST(holds)                                                                                \
    do {                                                                                           \
        if (!(holds)) fails(__FILE__, __LINE__, #holds, errno);                                    \
    } while (0)
/* For what the system refuses: no fault of the allocator. */
#define NEEDS(holds)                                                                               \
    do {                                                                                           \
        if (!(holds)) skips(#holds, errno);                                                        \
    } while (0)

static inline void says(const char *line, int length) {
    if (write(2, line, length) != length) _exit(3);
}
static inline void fails(const char *file, int number, const char *what, int code) {
    char line[400];
    const char *name = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    int length = snprintf(line, sizeof line, "%s:%d: %s (errno %d)\n", name, number, what, code);
    says(line, length < (int)sizeof line ? length : (int)sizeof line - 1);
    _exit(1);
}
static inline void skips(const char *what, int code) {
    char line[200];
    says(line, snprintf(line, sizeof line, "skipped: %.100s (errno %d)\n", what, code));
    _exit(SKIPPED);
}

struct rng {
    unsigned long x;
};
static inline unsigned long rng_next(struct rng *r) {
    r->x = r->x * 6364136223846793005ul + 1442695040888963407ul;
    return r->x >> 33;
}

/* Allocates and frees `rounds` times, mostly small; each block holds its number at both ends. */
static inline void work(unsigned long seed, int rounds) {
    struct rng r = {seed * 2654435761u + 1};
    struct {
        unsigned long *p;
        size_t n;
    } kept[64];
    memset(kept, 0, sizeof kept);
    for (int i = 0; i < rounds + 64; i++) {
        unsigned at = i < rounds ? rng_next(&r) % 64 : i - rounds;
        if (kept[at].p) {
            MUST(kept[at].p[0] == seed + at && kept[at].p[kept[at].n - 1] == ~(seed + at));
            free(kept[at].p);
            kept[at].p = NULL;
        }
        if (i >= rounds) continue;
        size_t n = 2 + rng_next(&r) % (rng_next(&r) % 100 == 0 ? 20000 : 200);
        unsigned long *p = (unsigned long *)(i % 3 == 0   ? calloc(n, 8)
                                             : i % 3 == 1 ? malloc(n * 8)
                                                          : realloc(malloc(24), n * 8));
        MUST(p != NULL);
        p[0] = seed + at;
        p[n - 1] = ~(seed + at);
        kept[at].p = p;
        kept[at].n = n;
    }
}
static inline void *worker(void *seed) {
    work((unsigned long)seed, 2000);
    return NULL;
}
static inline void threaded_work(int threads) {
    pthread_t t[64];
    for (long i = 0; i < threads; i++)
        MUST(pthread_create(&t[i], NULL, worker, (void *)(i + 7)) == 0);
    for (int i = 0; i < threads; i++) MUST(pthread_join(t[i], NULL) == 0);
}

/* Allocates blocks of `size` bytes until memory ends, which must be ENOMEM, and frees them all.
   Returns the bytes of the blocks. */
static inline size_t all_in_blocks_of(size_t size) {
    void **all = NULL;
    size_t got = 0;
    for (;;) {
        errno = 0;
        void **p = (void **)malloc(size);
        if (p == NULL) break;
        *p = all;
        all = p;
        got += size;
        MUST(got < 1ul << 32);
    }
    MUST(errno == ENOMEM);
    while (all) {
        void **next = (void **)*all;
        free(all);
        all = next;
    }
    return got;
}

/* Threads that allocate until `crowd_ends`. */
static volatile int crowd_stop;
static pthread_t crowd_threads[32];
static int crowd_count;
static inline void *crowd_runs(void *seed) {
    for (unsigned long i = 0; !crowd_stop; i++) work((unsigned long)seed * 1000 + i, 300);
    return NULL;
}
static inline void crowd_begins(int threads) {
    crowd_stop = 0;
    crowd_count = threads;
    for (long i = 0; i < threads; i++)
        MUST(pthread_create(&crowd_threads[i], NULL, crowd_runs, (void *)(i + 1)) == 0);
}
static inline void crowd_ends(void) {
    crowd_stop = 1;
    for (int i = 0; i < crowd_count; i++) MUST(pthread_join(crowd_threads[i], NULL) == 0);
}

/* True if the child ended with this code. */
static inline int child_ended(pid_t pid, int code) {
    int status;
    while (waitpid(pid, &status, 0) != pid)
        if (errno != EINTR) return 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == code;
}

/* A number, in KiB where it is a size, from a file of /proc; -1 if there is none. */
static inline long proc_number(const char *path, const char *key) {
    char text[8192];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t n, all = 0;
    while (all < (ssize_t)sizeof text - 1 && (n = read(fd, text + all, sizeof text - 1 - all)) > 0) all += n;
    close(fd);
    text[all > 0 ? all : 0] = 0;
    char *at = strstr(text, key);
    return at ? strtol(at + strlen(key), NULL, 10) : -1;
}
static inline long status_number(const char *key) { return proc_number("/proc/self/status", key); }
static inline long resident_kib(void) {
    return status_number("VmRSS:");
}
static inline long thread_count(void) { return status_number("Threads:"); }

static inline double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}
static inline void sleep_ms(int ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000l};
    while (nanosleep(&time, &time) != 0 && errno == EINTR) continue;
}

/* The path of a file beside the program. */
static inline const char *beside(const char *name) {
    static char path[PATH_MAX + 256];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    MUST(n > 0);
    path[n] = 0;
    strcpy(strrchr(path, '/') + 1, name);
    return path;
}
/* Runs the program again, in the same process, with one argument. */
static inline void run_again(const char *argument) {
    const char *arguments[] = {"again", argument, NULL};
    execv("/proc/self/exe", (char *const *)arguments);
    MUST(!"exec");
}
/* Hides a pointer from the compiler. */
static inline void *hide(void *p) {
    __asm__ volatile("" : "+r"(p));
    return p;
}
#endif
