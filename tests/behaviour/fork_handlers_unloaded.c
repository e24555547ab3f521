/* Promise: a library with fork handlers that allocate comes by dlopen and goes by dlclose. */
/* beside: handlers */
#include "behaviour.h"

int main(void) {
    crowd_begins(2);
    for (int i = 0; i < 20; i++) {
        void *library = dlopen(beside("handlers.so"), RTLD_NOW);
        MUST(library != NULL);
        pid_t pid = fork();
        if (pid == 0) _exit(7);
        MUST(pid > 0 && child_ended(pid, 7));
        MUST(dlclose(library) == 0);
        pid = fork();
        if (pid == 0) {
            work(i, 100);
            _exit(7);
        }
        MUST(pid > 0 && child_ended(pid, 7));
    }
    crowd_ends();
    return 0;
}
