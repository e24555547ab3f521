/* Promise: what threads leave behind is used again: 2000 threads take no more memory than 500.
   (glibc's tst-malloc-thread-exit.) */
#include "behaviour.h"

static void *allocates(void *unused) {
    char *p[32];
    for (int i = 0; i < 32; i++) {
        MUST((p[i] = malloc(1000 + i * 200)) != NULL);
        memset(p[i], 1, 1000);
    }
    for (int i = 0; i < 32; i++) free(p[i]);
    return unused;
}
int main(void) {
    long before = 0;
    for (int i = 0; i < 2000; i += 20) {
        pthread_t t[20];
        for (int k = 0; k < 20; k++) MUST(pthread_create(&t[k], NULL, allocates, NULL) == 0);
        for (int k = 0; k < 20; k++) MUST(pthread_join(t[k], NULL) == 0);
        if (i == 500) before = resident_kib();
    }
    long after = resident_kib();
    MUST(after < before + (24 << 10));
    return 0;
}
