/* Promise: destructors of pthread keys allocate, free, and set keys again, at each thread's end. */
#include "behaviour.h"

static pthread_key_t keys[3];
static int called;
static void ends(void *value) {
    int *count = value;
    __atomic_add_fetch(&called, 1, __ATOMIC_SEQ_CST);
    work(*count, 30);
    if (--*count > 0) {
        int *again = malloc(sizeof *again);
        *again = *count;
        MUST(pthread_setspecific(keys[*count % 3], again) == 0);
    }
    free(value);
}
static void *runs(void *unused) {
    for (int i = 0; i < 3; i++) {
        int *count = malloc(sizeof *count);
        *count = 2;
        MUST(pthread_setspecific(keys[i], count) == 0);
    }
    return unused;
}
int main(void) {
    /* Keys of the second level are allocated by the C library. */
    pthread_key_t unused;
    for (int i = 0; i < 40; i++) pthread_key_create(&unused, NULL);
    for (int i = 0; i < 3; i++) MUST(pthread_key_create(&keys[i], ends) == 0);
    for (int round = 0; round < 20; round++) {
        pthread_t t[5];
        for (int i = 0; i < 5; i++) MUST(pthread_create(&t[i], NULL, runs, NULL) == 0);
        for (int i = 0; i < 5; i++) pthread_join(t[i], NULL);
    }
    MUST(called >= 300);
    return 0;
}
