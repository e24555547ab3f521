/* Promise: constructors, atexit and on_exit functions and destructors allocate and free, and free
   each other's memory. */
/* library: late */
#include "behaviour.h"

void *late_memory(void);
static void *first, *second;
static void early(int argc, char **argv, char **environment) {
    (void)argc, (void)argv, (void)environment;
    first = malloc(300);
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char **, char **) = early;
__attribute__((constructor)) static void starts(void) {
    MUST(first != NULL);
    first = realloc(first, 100000);
    second = calloc(1, 3 << 20);
}
__attribute__((destructor)) static void ends(void) {
    free(second);
    work(2, 200);
    free(late_memory());
}
static void at_exit(void) {
    work(1, 200);
    free(first);
}
static void on_exit_(int code, void *memory) {
    MUST(code == 0 && *(int *)memory == 7);
    free(memory);
}
int main(void) {
    int *memory = malloc(20);
    *memory = 7;
    MUST(atexit(at_exit) == 0 && on_exit(on_exit_, memory) == 0);
    static char buffer[100];
    setvbuf(stdout, malloc(8192), _IOFBF, 8192);
    fclose(fmemopen(buffer, sizeof buffer, "w"));
    return 0;
}
