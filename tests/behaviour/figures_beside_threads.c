/* Promise: mallinfo2, malloc_info and malloc_trim may be called beside threads that allocate and
   fork. */
#include "behaviour.h"

static volatile int stop;
static void *asks(void *unused) {
    while (!stop) {
        struct mallinfo2 now = mallinfo2();
        MUST(now.arena + now.hblkhd < 1ul << 32);
        char *text = NULL;
        size_t size = 0;
        FILE *file = open_memstream(&text, &size);
        MUST(malloc_info(0, file) == 0);
        fclose(file);
        MUST(size > 20);
        free(text);
        malloc_trim(0);
    }
    return unused;
}
int main(void) {
    pthread_t t[2];
    crowd_begins(2);
    for (int i = 0; i < 2; i++) MUST(pthread_create(&t[i], NULL, asks, NULL) == 0);
    for (int i = 0; i < 15; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            work(i, 50);
            (void)mallinfo2();
            malloc_trim(0);
            _exit(7);
        }
        MUST(pid > 0 && child_ended(pid, 7));
    }
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    crowd_ends();
    return 0;
}
