/* Promise: realloc from every kind of size to every other keeps the contents, aligned blocks too.
   (glibc's tst-realloc.) */
#include "behaviour.h"

int main(void) {
    const size_t sizes[] = {1, 16, 17, 100, 1000, 4096, 5000, 28672, 28673, 70000, 1 << 20, 5 << 20, 33 << 20, 70 << 20};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    for (int from = 0; from < COUNT; from++)
        for (int to = 0; to < COUNT; to++)
            for (int kind = 0; kind < 3; kind++) {
                char *p = kind == 0   ? malloc(sizes[from])
                          : kind == 1 ? calloc(1, sizes[from])
                                      : aligned_alloc(4096, sizes[from]);
                MUST(p != NULL);
                size_t step = sizes[from] > 100000 ? 4099 : 1;
                for (size_t at = 0; at < sizes[from]; at += step) p[at] = (char)(at * 7 + from);
                p[sizes[from] - 1] = 'e';
                char *q = realloc(p, sizes[to]);
                MUST(q != NULL && malloc_usable_size(q) >= sizes[to]);
                size_t both = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
                for (size_t at = 0; at < both; at += step)
                    MUST(q[at] == (char)(at * 7 + from) || at == sizes[from] - 1);
                if (sizes[to] >= sizes[from]) MUST(q[sizes[from] - 1] == 'e');
                q[sizes[to] - 1] = 1;
                free(q);
            }
    return 0;
}
