/* Habit: a library that is opened with RTLD_DEEPBIND exchanges memory with the program. */
/* beside: plugin */
#include "behaviour.h"

int main(void) {
    void *library = dlopen(beside("plugin.so"), RTLD_NOW | RTLD_DEEPBIND);
    MUST(library != NULL);
    char *(*gives)(size_t) = (char *(*)(size_t))dlsym(library, "plugin_gives");
    void (*takes)(void *) = (void (*)(void *))dlsym(library, "plugin_takes");
    for (int i = 0; i < 200; i++) {
        free(gives(100 + i * 50));
        takes(malloc(100 + i * 50));
        takes(strdup("text"));
    }
    return 0;
}
