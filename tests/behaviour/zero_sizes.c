/* Promise: size zero is memory of its own, that can be freed, from all functions but realloc, which
   frees; nothing leaks. */
#include "behaviour.h"

int main(void) {
    void *p[6] = {malloc(0), calloc(0, 10), calloc(10, 0), realloc(NULL, 0), aligned_alloc(64, 0), memalign(64, 0)};
    for (int i = 0; i < 6; i++) {
        MUST(p[i] != NULL);
        for (int k = 0; k < i; k++) MUST(p[k] != p[i]);
    }
    for (int i = 0; i < 6; i++) free(p[i]);
    long before = resident_kib();
    for (int i = 0; i < 300000; i++) {
        free(malloc(0));
        free(calloc(0, 0));
        void *q = malloc(100);
        MUST(realloc(q, 0) == NULL);
        q = malloc(0);
        MUST((q = realloc(q, 10)) != NULL);
        free(q);
    }
    MUST(realloc(malloc(60000), 0) == NULL && realloc(malloc(40 << 20), 0) == NULL);
    MUST(resident_kib() < before + 2048);
    return 0;
}
