/* Registers fork handlers when it is loaded, and allocates in them. */
#include <pthread.h>
#include <stdlib.h>

static void *kept[64];
static int calls;
static void allocates(void) {
    calls++;
    for (int i = 0; i < 64; i++) {
        free(kept[i]);
        kept[i] = malloc(i == 63 ? 2 << 20 : 16 << i % 12);
        if (kept[i] == NULL) abort();
    }
}
__attribute__((constructor)) static void loaded(void) {
    kept[0] = malloc(100);
    if (pthread_atfork(allocates, allocates, allocates) != 0) abort();
}
__attribute__((destructor)) static void unloaded(void) {
    for (int i = 0; i < 64; i++) free(kept[i]);
}
int handlers_calls(void) { return calls; }
