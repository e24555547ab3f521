/* Memory ends, by blocks of several sizes: null and ENOMEM each time, the program goes on, and
   after everything is freed there is as much again. With an argument the limit (of that kind, in
   MiB) is set now, after the start. */
#include "must.h"

struct link { struct link *next; };

static size_t until_the_end(size_t size) {
    struct link *all = NULL;
    size_t got = 0;
    for (;;) {
        errno = 0;
        struct link *p = malloc(size);
        if (p == NULL) break;
        p->next = all;
        all = p;
        got++;
        MUST(got < ((size_t)4 << 30) / size);
    }
    MUST(errno == ENOMEM);
    /* Other calls fail as well as the manual says, or find a small rest. */
    errno = 0;
    void *p = calloc(1, 16 << 20);
    MUST(p != NULL || errno == ENOMEM);
    free(p);
    void *q = &q;
    int code = posix_memalign(&q, 64, 16 << 20);
    MUST(code == 0 || (code == ENOMEM && q == &q));
    if (code == 0) free(q);
    if (all) {
        struct link *rest = all->next;
        errno = 0;
        struct link *grown = realloc(all, (size_t)1 << 30);
        MUST(grown != NULL || (errno == ENOMEM && all->next == rest));
        all = grown ? grown : all;
    }
    while (all) {
        struct link *next = all->next;
        free(all);
        all = next;
    }
    return got * size;
}

int main(int argc, char **argv) {
    work(1, 1000);
    if (argc > 2) {
        struct rlimit limit = {atol(argv[2]) << 20, atol(argv[2]) << 20};
        MUST(setrlimit(strcmp(argv[1], "as") == 0 ? RLIMIT_AS : RLIMIT_DATA, &limit) == 0);
    }
    const size_t sizes[] = {64, 3000, 20000, 1 << 20, 64};
    for (int i = 0; i < 5; i++) {
        size_t first = until_the_end(sizes[i]), second = until_the_end(sizes[i]);
        MUST(first > 4 << 20 && second > first / 2);
        work(i, 2000);
    }
    puts("well");
    return 0;
}
