/* A library that opens another by its name alone: the loader finds it by the RUNPATH of this one.
   */
#include <dlfcn.h>
#include <stdio.h>

void *open_inner(const char *name, int flags) {
    void *library = dlopen(name, flags);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    return library;
}
