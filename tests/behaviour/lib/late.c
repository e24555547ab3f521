/* A library that allocates in its constructor and frees in its destructor. */
#include <stdlib.h>
#include <string.h>

static char *kept, *given;
__attribute__((constructor)) static void starts(void) {
    kept = strdup("from the constructor");
    given = malloc(5000);
}
__attribute__((destructor)) static void ends(void) {
    if (strcmp(kept, "from the constructor") != 0) abort();
    free(kept);
    free(malloc(4 << 20));
}
void *late_memory(void) { return given; }
