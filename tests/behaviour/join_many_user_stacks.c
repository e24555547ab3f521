/* Promise: 300 threads with stacks of the program's end: pthread_join frees under the C library's
   lock, in a program that has freed nothing before, and ends. */
#include "behaviour.h"

static void *ends(void *unused) { return unused; }
int main(void) {
    enum { COUNT = 300, SIZE = 64 << 10 };
    static pthread_t t[COUNT];
    char *stacks = mmap(NULL, COUNT * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(stacks != MAP_FAILED);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    for (int i = 0; i < COUNT; i++) {
        MUST(pthread_attr_setstack(&attributes, stacks + i * SIZE, SIZE) == 0);
        int code = pthread_create(&t[i], &attributes, ends, NULL);
        errno = code;
        NEEDS(code == 0);
    }
    for (int i = 0; i < COUNT; i++) MUST(pthread_join(t[i], NULL) == 0);
    threaded_work(3);
    return 0;
}
