/* Promise: a library in a namespace of its own (dlmopen) has its malloc, the program another. */
/* beside: plugin */
#include "behaviour.h"

int main(void) {
    void *library = dlmopen(LM_ID_NEWLM, beside("plugin.so"), RTLD_NOW);
    NEEDS(library != NULL);
    char *(*gives)(size_t) = (char *(*)(size_t))dlsym(library, "plugin_gives");
    void (*takes)(void *) = (void (*)(void *))dlsym(library, "plugin_takes");
    for (int i = 0; i < 300; i++) {
        takes(gives(100 + i * 100));
        work(i, 20);
    }
    MUST(dlclose(library) == 0);
    work(1, 500);
    return 0;
}
