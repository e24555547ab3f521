/* Allocates what programs do, of all sizes, in two threads; then prints each page of files that is
   resident, with the line of its mapping. */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 3000, PAGE = 4096 };

/* The threads end together: one that is alone gives memory back by its calls, which is what lies
   apart. */
static pthread_barrier_t both_done;

static void *work(void *unused) {
    static __thread void *kept[COUNT];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            size_t size = (size_t)i * i % (i % 50 ? 30000 : 300000);
            kept[i] = i % 3 ? malloc(size) : i % 2 ? calloc(1, size) : aligned_alloc(64, size);
            if (!kept[i]) exit(1);
            memset(kept[i], 1, size);
        }
        for (int i = 0; i < COUNT; i++) {
            if (i % 4 == 0) kept[i] = realloc(kept[i], malloc_usable_size(kept[i]) * 2);
            free(kept[i]);
        }
    }
    pthread_barrier_wait(&both_done);
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pthread_barrier_init(&both_done, NULL, 2)) return 1;
    if (pthread_create(&thread, NULL, work, NULL)) return 1;
    work(NULL);
    pthread_join(thread, NULL);
    FILE *maps = fopen("/proc/self/maps", "r");
    int pagemap = open("/proc/self/pagemap", O_RDONLY);
    if (!maps || pagemap < 0) return 77;
    char line[4096];
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (sscanf(line, "%lx-%lx", &start, &end) != 2 || !strchr(line, '/')) continue;
        for (; start < end; start += PAGE) {
            uint64_t entry;
            if (pread(pagemap, &entry, sizeof entry, start / PAGE * sizeof entry) != sizeof entry) return 77;
            if (entry >> 63) printf("%lx %s", start, line);
        }
    }
    return 0;
}
