/* Promise: a program whose threads were all joined has one thread again, however short they lived.
   */
#include "behaviour.h"
#include <dirent.h>

static void *ends(void *unused) { return unused; }

/* The names of the threads that are there, for the message. */
static void tells_threads(void) {
    DIR *threads = opendir("/proc/self/task");
    MUST(threads != NULL);
    for (struct dirent *entry; (entry = readdir(threads)) != NULL;) {
        char path[300], name[64];
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, name, sizeof name);
        if (fd >= 0) close(fd);
        if (n > 0) says(name, n);
    }
    closedir(threads);
}

int main(void) {
    for (int round = 0; round < 2000; round++) {
        pthread_t thread;
        MUST(pthread_create(&thread, NULL, ends, NULL) == 0);
        MUST(pthread_join(thread, NULL) == 0);
        /* The kernel counts a thread until it has cleaned up behind it. */
        for (int look = 0; look < 5000 && thread_count() != 1; look++) sleep_ms(1);
        if (thread_count() != 1) tells_threads();
        MUST(thread_count() == 1);
    }
    return 0;
}
