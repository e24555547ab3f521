/* Says whether it runs set-user-ID, and the mode of the allocator. */
#include "must.h"
#include <malloc.h>
#include <sys/auxv.h>

int main(void) {
    char *text = NULL;
    size_t length;
    FILE *f = open_memstream(&text, &length);
    MUST(malloc_info(0, f) == 0 && fclose(f) == 0);
    char *mode = strstr(text, "<mode>");
    MUST(mode != NULL);
    printf("secure %lu mode %.*s\n", getauxval(AT_SECURE), (int)strcspn(mode + 6, "<"), mode + 6);
    return 0;
}
