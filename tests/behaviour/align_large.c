/* Promise: alignments up to 1 GiB work for small and large objects, in threads too. */
#include "behaviour.h"

static void *runs(void *unused) {
    for (int shift = 3; shift <= 30; shift++) {
        size_t align = 1ul << shift;
        const size_t sizes[] = {0, 1, 100, 5000, 70000, align < 1 << 25 ? align : 1 << 20, 3 << 20};
        for (int i = 0; i < 7; i++) {
            void *p = NULL;
            MUST(posix_memalign(&p, align, sizes[i]) == 0);
            MUST((uintptr_t)p % align == 0 && malloc_usable_size(p) >= sizes[i]);
            if (sizes[i]) ((char *)p)[0] = ((char *)p)[sizes[i] - 1] = 1;
            char *grown = realloc(p, sizes[i] + 5000);
            MUST(grown != NULL && (sizes[i] == 0 || grown[0] == 1));
            free(grown);
        }
    }
    return unused;
}
int main(void) {
    runs(NULL);
    pthread_t t[2];
    for (int i = 0; i < 2; i++) MUST(pthread_create(&t[i], NULL, runs, NULL) == 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    MUST(resident_kib() < 300 << 10);
    return 0;
}
