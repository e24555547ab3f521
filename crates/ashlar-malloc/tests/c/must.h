/* What the programs here share: MUST ends the program and names the line that does not hold; `work`
   is a bit of everything. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(holds)                                                                       \
    do {                                                                                  \
        if (!(holds)) {                                                                   \
            char line_[160];                                                              \
            int n_ = snprintf(line_, sizeof line_, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #holds, errno); \
            if (write(2, line_, n_) == n_) _exit(1);                                      \
            _exit(2);                                                                     \
        }                                                                                 \
    } while (0)

struct rng { unsigned long x; };
static inline unsigned long next(struct rng *r) {
    r->x = r->x * 6364136223846793005ul + 1442695040888963407ul;
    return r->x >> 33;
}

/* Allocates and frees `rounds` times, small ones, a few large ones; every block holds its own
   number at both ends. */
static void work(unsigned long seed, int rounds) {
    struct rng r = {seed * 2654435761u + 1};
    struct { unsigned long *p; size_t n; } kept[64];
    memset(kept, 0, sizeof kept);
    for (int i = 0; i < rounds; i++) {
        int at = next(&r) % 64;
        if (kept[at].p) {
            MUST(kept[at].p[0] == seed + at && kept[at].p[kept[at].n - 1] == ~(seed + at));
            free(kept[at].p);
        }
        size_t n = 2 + next(&r) % (next(&r) % 100 == 0 ? 20000 : 200);
        unsigned long *p = i % 3 == 0 ? calloc(n, 8) : i % 3 == 1 ? malloc(n * 8) : realloc(malloc(24), n * 8);
        MUST(p != NULL);
        p[0] = seed + at;
        p[n - 1] = ~(seed + at);
        kept[at].p = p;
        kept[at].n = n;
    }
    for (int i = 0; i < 64; i++) {
        if (kept[i].p) MUST(kept[i].p[0] == seed + i && kept[i].p[kept[i].n - 1] == ~(seed + i));
        free(kept[i].p);
    }
}
static void *worker(void *seed) {
    work((unsigned long)seed, 3000);
    return NULL;
}
/* The same in `threads` threads. */
static void threaded_work(int threads) {
    pthread_t t[64];
    for (long i = 0; i < threads; i++) MUST(pthread_create(&t[i], NULL, worker, (void *)(i + 7)) == 0);
    for (int i = 0; i < threads; i++) MUST(pthread_join(t[i], NULL) == 0);
}
static inline int child_ended(pid_t pid, int code) {
    int status;
    while (waitpid(pid, &status, 0) != pid)
        if (errno != EINTR) return 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == code;
}
