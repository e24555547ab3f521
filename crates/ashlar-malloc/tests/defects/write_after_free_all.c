/* All of a freed object is overwritten, its link too, and objects are allocated until it is used
   again. */
#include "defect.h"

int main(void) {
    char *all[1000];
    for (int i = 0; i < 1000; i++) all[i] = malloc(64);
    for (int i = 0; i < 1000; i += 2) free(all[i]);
    malloc_trim(0);
    memset(all[500], 0x41, 64);
    for (int i = 0; i < 2000; i++) if (malloc(64) == NULL) return 1;
    return 0;
}
