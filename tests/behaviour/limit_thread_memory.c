/* Promise: threads that meet the end of memory at the same time get ENOMEM and free what they have.
   (glibc's tst-malloc-thread-fail.) */
#include "behaviour.h"

static volatile int ended;
static void *fills(void *seed) {
    struct link {
        struct link *next;
    } *all = NULL, *p;
    size_t size = 16 << (long)seed % 10;
    errno = 0;
    while ((p = malloc(size)) != NULL) {
        p->next = all;
        all = p;
    }
    if (errno == ENOMEM) __atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
    while ((p = all) != NULL) {
        all = p->next;
        free(p);
    }
    return NULL;
}
int main(void) {
    struct rlimit limit = {160ul << 20, 160ul << 20};
    threaded_work(2);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    MUST(setrlimit(RLIMIT_DATA, &limit) == 0);
    for (int round = 0; round < 3; round++) {
        pthread_t t[8];
        int started = 0;
        while (started < 8 && pthread_create(&t[started], &attributes, fills, (void *)(long)started) == 0) started++;
        for (int i = 0; i < started; i++) MUST(pthread_join(t[i], NULL) == 0);
        work(round, 300);
    }
    MUST(ended >= 3);
    return 0;
}
