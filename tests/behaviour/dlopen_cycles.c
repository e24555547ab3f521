/* Promise: a library that allocates is loaded and unloaded often; its blocks stay valid, and memory
   does not grow. */
/* beside: plugin */
#include "behaviour.h"

int main(void) {
    long before = 0;
    for (int i = 0; i < 150; i++) {
        void *library = dlopen(beside("plugin.so"), RTLD_NOW | RTLD_LOCAL);
        MUST(library != NULL);
        char *(*gives)(size_t) = (char *(*)(size_t))dlsym(library, "plugin_gives");
        void (*takes)(void *) = (void (*)(void *))dlsym(library, "plugin_takes");
        char *p = gives(9000);
        takes(malloc(50));
        MUST(dlclose(library) == 0);
        MUST(p[0] == 'g' && p[8999] == 'g');
        free(p);
        MUST(dlopen("/nonexistent.so", RTLD_NOW) == NULL && dlerror() != NULL);
        if (i == 50) before = resident_kib();
    }
    MUST(resident_kib() < before + 4096);
    return 0;
}
