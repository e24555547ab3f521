/* A pointer a few bytes into a run of pages is freed. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(300000);
    tell(a + 16);
    tell(a);
    free(a + 16);
    return 0;
}
