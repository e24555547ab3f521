/*
 * Allocates and frees at random, and keeps a record of each object apart from the allocator. An
 * owner writes its token over the whole object, and reads all of it before the object is freed.
 * Allocations that fail are counted. So a program in which calls of the system fail shows whether
 * an object was lost or given to two owners.
 *
 *   owners THREADS OPERATIONS
 *
 * Prints what it did. Exit code: 0 if every object held what its owner wrote, 1 if not.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 500, THREADS = 64 };

struct owned {
    unsigned char *at;
    size_t size;
    uint64_t token;
};

struct work {
    uint64_t random;
    long operations, allocated, refused;
    struct owned held[MOST];
    int count;
};

static struct work works[THREADS];

static uint64_t draw(struct work *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

static void fill(const struct owned *o)
{
    for (size_t i = 0; i < o->size; i++)
        o->at[i] = (unsigned char)(o->token >> (i % 8 * 8));
}

static void check(const struct owned *o, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (o->at[i] != (unsigned char)(o->token >> (i % 8 * 8))) {
            fprintf(stderr, "owners: byte %zu of the %zu at %p is not what its owner wrote\n", i, o->size, o->at);
            _exit(1);
        }
}

static size_t a_size(struct work *w)
{
    uint64_t r = draw(w) % 1000;
    size_t most = r < 700 ? 300 : r < 950 ? 8000 : r < 995 ? 100000 : 40u << 20;
    return 1 + draw(w) % most;
}

static void one(struct work *w)
{
    struct owned *o = &w->held[draw(w) % MOST];
    if (!o->at) {
        size_t size = a_size(w);
        unsigned kind = draw(w) % 8;
        unsigned char *at = kind == 0 ? calloc(1, size) : kind == 1 ? memalign(64, size) : malloc(size);
        if (!at) {
            w->refused++;
            return;
        }
        *o = (struct owned){at, size, draw(w)};
        w->allocated++;
        fill(o);
    } else if (draw(w) % 8 == 0) {
        size_t size = a_size(w);
        check(o, o->size);
        unsigned char *at = realloc(o->at, size);
        if (!at) {
            w->refused++;
            check(o, o->size);
            return;
        }
        o->at = at;
        check(o, size < o->size ? size : o->size);
        o->size = size;
        fill(o);
    } else {
        check(o, o->size);
        free(o->at);
        o->at = NULL;
    }
}

static void *run(void *arg)
{
    struct work *w = arg;
    for (long i = 0; i < w->operations; i++)
        one(w);
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 4, created = 0;
    long operations = argc > 2 ? atol(argv[2]) : 100000, allocated = 0, refused = 0;
    pthread_t thread[THREADS];
    int is_thread[THREADS] = {0};
    if (threads < 1 || threads > THREADS || operations < 1) {
        fprintf(stderr, "owners: expected 1 to %d threads, and operations\n", THREADS);
        return 2;
    }
    /* An object with a mapping of its own, which grows. */
    unsigned char *large = malloc(33 << 20), *larger = NULL;
    if (large) {
        large[0] = large[(33 << 20) - 1] = 7;
        larger = realloc(large, 80 << 20);
        large = larger ? larger : large;
        if (large[0] != 7 || large[(33 << 20) - 1] != 7) {
            fprintf(stderr, "owners: an object that grew does not hold what its owner wrote\n");
            return 1;
        }
    }
    refused += !larger;
    free(large);
    for (int i = 0; i < threads; i++) {
        works[i].random = 0x9E3779B97F4A7C15u * (uint64_t)(i + 1);
        works[i].operations = operations;
        /* Where the system has no thread left, this one does the work. */
        is_thread[i] = threads > 1 && !pthread_create(&thread[i], NULL, run, &works[i]);
        created += is_thread[i];
        if (!is_thread[i])
            run(&works[i]);
    }
    for (int i = 0; i < threads; i++)
        if (is_thread[i])
            pthread_join(thread[i], NULL);
    /* What threads left is freed here. */
    for (int i = 0; i < threads; i++) {
        allocated += works[i].allocated;
        refused += works[i].refused;
        for (int j = 0; j < MOST; j++)
            if (works[i].held[j].at) {
                check(&works[i].held[j], works[i].held[j].size);
                free(works[i].held[j].at);
            }
    }
    malloc_trim(0);
    char line[160];
    int length = snprintf(line, sizeof line, "%ld allocated, %ld refused, %d threads\n", allocated, refused, created);
    return write(1, line, (size_t)length) == length ? 0 : 1;
}
