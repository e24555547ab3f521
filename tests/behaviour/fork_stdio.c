/* Promise: fork beside fflush(NULL) and streams whose writers allocate ends.
   (glibc's tst-malloc-fork-deadlock.) */
#include "behaviour.h"

static volatile int stop;
static ssize_t writes(void *cookie, const char *bytes, size_t size) {
    (void)cookie, (void)bytes;
    for (int i = 0; i < 2; i++) free(malloc(i % 2 ? 64 : 40000));
    return size;
}
static void *flushes(void *unused) {
    /* Without a pause these threads alone starve fork on glibc. */
    while (!stop) fflush(NULL), usleep(100);
    return unused;
}
static void *opens(void *unused) {
    while (!stop) {
        char *text = NULL;
        size_t size;
        FILE *file = open_memstream(&text, &size);
        MUST(file != NULL);
        fprintf(file, "%d", 7);
        fclose(file);
        free(text);
        usleep(50);
    }
    return unused;
}
static void *prints(void *unused) {
    cookie_io_functions_t functions = {NULL, writes, NULL, NULL};
    FILE *file = fopencookie(NULL, "w", functions);
    MUST(file != NULL);
    while (!stop) fprintf(file, "%d\n", 12345), fflush(file), usleep(50);
    fclose(file);
    return unused;
}

int main(void) {
    pthread_t t[6];
    void *(*runs[3])(void *) = {flushes, opens, prints};
    for (int i = 0; i < 6; i++) MUST(pthread_create(&t[i], NULL, runs[i % 3], NULL) == 0);
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            free(malloc(100));
            _exit(7);
        }
        MUST(pid > 0 && child_ended(pid, 7));
    }
    stop = 1;
    for (int i = 0; i < 6; i++) pthread_join(t[i], NULL);
    return 0;
}
