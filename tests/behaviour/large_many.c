/* Promise: 70000 blocks of 150 KB live at once; the kernel allows 65530 mappings. */
#include "behaviour.h"

int main(void) {
    enum { COUNT = 70000 };
    static char *p[COUNT];
    for (int i = 0; i < COUNT; i++) {
        MUST((p[i] = malloc(150000)) != NULL);
        if (i % 100 == 0) p[i][149999] = 1;
    }
    for (int i = 0; i < COUNT; i += 2) free(p[i]);
    for (int i = 0; i < COUNT; i += 2) MUST((p[i] = malloc(150000)) != NULL);
    threaded_work(3);
    for (int i = 0; i < COUNT; i++) free(p[i]);
    return 0;
}
