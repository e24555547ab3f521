/* A static program that opens a shared library. Exit code 77: with this C library it cannot. */
#include <dlfcn.h>
#include <stdio.h>

int main(void) {
    void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_DEEPBIND);
    double (*root)(double) = library ? (double (*)(double))dlsym(library, "sqrt") : NULL;
    if (!root) return 77;
    if (root(49) != 7 || dlopen("/nowhere/libnothing.so", RTLD_NOW) || !dlerror()) return 1;
    puts("well");
    return 0;
}
