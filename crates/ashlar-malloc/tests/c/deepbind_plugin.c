/* A library that takes and gives memory, and tells whose functions it calls. */
#include <stdlib.h>
#include <string.h>

void *exchange(void *p) {
    char *grown = realloc(p, 5000);
    if (!grown) return NULL;
    char *copy = strdup(grown);
    free(grown);
    return copy;
}
void *function_that_frees(void) { return (void *)free; }
