/* Promise: malloc_usable_size is at least the size, 0 for null, and all of it may be written.
   (glibc's tst-malloc-usable.) */
#include "behaviour.h"

int main(void) {
    MUST(malloc_usable_size(NULL) == 0);
    char *before = malloc(64);
    memset(before, 'b', 64);
    for (size_t size = 0; size < 3000000; size += 1 + size / 10) {
        char *p = malloc(size), *q = calloc(1, size), *r = aligned_alloc(256, size);
        char *all[] = {p, q, r};
        for (int i = 0; i < 3; i++) {
            size_t usable = malloc_usable_size(all[i]);
            MUST(usable >= size && usable < 2 * size + 100000);
            memset(all[i], i + 1, usable);
            MUST(malloc_usable_size(all[i]) == usable);
        }
        for (int i = 0; i < 3; i++) {
            char *grown = realloc(all[i], malloc_usable_size(all[i]));
            for (size_t at = 0; at < size; at += 1 + size / 50) MUST(grown[at] == i + 1);
            free(grown);
        }
    }
    for (int i = 0; i < 64; i++) MUST(before[i] == 'b');
    free(before);
    return 0;
}
