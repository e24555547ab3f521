/* A pointer into a run of pages is freed. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(300000);
    tell(a + 8192);
    tell(a);
    free(a + 8192);
    return 0;
}
