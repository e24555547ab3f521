/* A library that allocates by its own calls, in its constructor and its destructor, and has
   thread-local storage that the dynamic linker allocates. */
#include <stdlib.h>
#include <string.h>

static char *kept;
static __thread char of_thread[30000];
__attribute__((constructor)) static void starts(void) {
    kept = malloc(70000);
    memset(kept, 'k', 70000);
}
__attribute__((destructor)) static void ends(void) { free(kept); }
char *plugin_gives(size_t size) { return memset(malloc(size), 'g', size); }
void plugin_takes(void *memory) { free(memory); }
int plugin_counts(void) { return ++of_thread[29999]; }
