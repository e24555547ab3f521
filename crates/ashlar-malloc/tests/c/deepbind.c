/* deepbind LIBRARY: opens it with RTLD_DEEPBIND and exchanges memory with it.
   deepbind LIBRARY apart: says "apart" if the library calls another free than the program.
   deepbind LIBRARY OPENER NAME: has OPENER open LIBRARY by its NAME. */
#include "must.h"
#include <dlfcn.h>

static void *(*exchange)(void *);
static void *(*frees)(void);
static void find(void *library) {
    MUST(library != NULL);
    exchange = (void *(*)(void *))dlsym(library, "exchange");
    frees = (void *(*)(void))dlsym(library, "function_that_frees");
    MUST(exchange && frees);
}
static void exchanges(void) {
    static const size_t sizes[] = {20, 3000, 100000, (size_t)40 << 20};
    for (int i = 0; i < 400; i++) {
        char *p = malloc(sizes[i % 4]);
        strcpy(p, "across the border");
        p = exchange(p);
        MUST(p && strcmp(p, "across the border") == 0);
        free(p);
    }
}

int main(int argc, char **argv) {
    /* Errors are the loader's own, before and after. */
    MUST(dlopen("/nowhere/libnothing.so", RTLD_NOW | RTLD_DEEPBIND) == NULL);
    const char *error = dlerror();
    MUST(error && strstr(error, "/nowhere/libnothing.so") && dlerror() == NULL);
    MUST(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL);
    if (argc == 4) {
        void *opener = dlopen(argv[2], RTLD_NOW);
        MUST(opener != NULL);
        void *(*open_inner)(const char *, int) = (void *(*)(const char *, int))dlsym(opener, "open_inner");
        MUST(open_inner != NULL && dlopen(argv[3], RTLD_NOW) == NULL);
        find(open_inner(argv[3], RTLD_NOW | RTLD_DEEPBIND));
    } else {
        find(dlopen(argv[1], RTLD_LAZY | RTLD_GLOBAL | RTLD_DEEPBIND));
    }
    int own = frees() != dlsym(RTLD_DEFAULT, "free");
    if (argc == 3) return puts(own ? "apart" : "one"), 0;
    MUST(!own);
    exchanges();
    /* A second time, and without the flag. */
    MUST(dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND) != NULL && dlopen(argv[1], RTLD_NOW) != NULL);
    MUST(dlopen(NULL, RTLD_NOW) != NULL);
    puts("well");
    return 0;
}
