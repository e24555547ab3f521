/* loads LIBRARY...: loads and unloads libraries that allocate, with threads that use them. With a
   library of its own malloc (ashlar's, not preloaded) both allocators live side by side. */
#include "must.h"
#include <dlfcn.h>

static void *(*call)(void *);
static void *uses(void *unused) {
    for (int i = 0; i < 100; i++) free(call(malloc(10)));
    return unused;
}

int main(int argc, char **argv) {
    for (int round = 0; round < 30; round++) {
        for (int i = 1; i < argc; i++) {
            void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
            if (!library) fprintf(stderr, "%s\n", dlerror());
            MUST(library != NULL);
            call = (void *(*)(void *))dlsym(library, "plugin");
            if (call) {
                pthread_t t[4];
                for (int k = 0; k < 4; k++) MUST(pthread_create(&t[k], NULL, uses, NULL) == 0);
                for (int k = 0; k < 4; k++) pthread_join(t[k], NULL);
                free(call(NULL));
            } else {
                void *(*theirs)(size_t) = (void *(*)(size_t))dlsym(library, "malloc");
                void (*release)(void *) = (void (*)(void *))dlsym(library, "free");
                MUST(theirs != NULL && release != NULL && theirs != malloc);
                for (int k = 0; k < 3000; k++) release(memset(theirs(k * 17), 1, k * 17));
                void *many[2000];
                for (int k = 0; k < 2000; k++) many[k] = theirs(9000);
                for (int k = 0; k < 2000; k++) release(many[k]); /* wakes the background thread */
            }
            work(round, 300);
            MUST(dlclose(library) == 0);
            if (!call && round % 10 == 0) usleep(300000); /* it must not run in code that is gone */
            pid_t pid = fork();
            if (pid == 0) {
                work(round, 100);
                _exit(7);
            }
            MUST(child_ended(pid, 7));
        }
    }
    puts("well");
    return 0;
}
