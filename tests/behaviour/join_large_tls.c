/* Promise: the end of a thread with a stack of the program's and large thread-local storage of a
   library frees that storage under the C library's lock of stacks, and ends. */
/* beside: large_tls */
#include "behaviour.h"

static char *(*large_tls)(void);
static void *uses(void *unused) {
    MUST(large_tls()[0] == 1);
    return unused;
}
int main(void) {
    void *library = dlopen(beside("large_tls.so"), RTLD_NOW);
    MUST(library != NULL);
    *(void **)&large_tls = dlsym(library, "large_tls");
    size_t size = 64 << 10;
    char *stacks = mmap(NULL, 8 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(stacks != MAP_FAILED);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    for (int round = 0; round < 20; round++) {
        pthread_t t[8];
        for (int i = 0; i < 8; i++) {
            MUST(pthread_attr_setstack(&attributes, stacks + i * size, size) == 0);
            MUST(pthread_create(&t[i], &attributes, uses, NULL) == 0);
        }
        for (int i = 0; i < 8; i++) MUST(pthread_join(t[i], NULL) == 0);
    }
    threaded_work(3);
    return 0;
}
