/* Promise: threads open and close a library with thread-local storage beside threads that allocate,
   fork and end. */
/* beside: plugin */
#include "behaviour.h"

static char path[PATH_MAX];
static void *counts(void *count) {
    for (int i = 1; i < 4; i++) MUST(((int (*)(void))count)() == i);
    return NULL;
}
static void *opens(void *unused) {
    for (int i = 0; i < 30; i++) {
        void *library = dlopen(path, RTLD_LAZY);
        MUST(library != NULL);
        pthread_t t;
        MUST(pthread_create(&t, NULL, counts, dlsym(library, "plugin_counts")) == 0);
        MUST(pthread_join(t, NULL) == 0);
        Dl_info info;
        dladdr(dlsym(library, "plugin_gives"), &info);
        MUST(dlclose(library) == 0);
    }
    return unused;
}
int main(void) {
    strcpy(path, beside("plugin.so"));
    crowd_begins(2);
    pthread_t t[3];
    for (int i = 0; i < 3; i++) MUST(pthread_create(&t[i], NULL, opens, NULL) == 0);
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            work(i, 50);
            _exit(7);
        }
        MUST(pid > 0 && child_ended(pid, 7));
    }
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    crowd_ends();
    return 0;
}
