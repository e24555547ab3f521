/* A small object is written to after it was freed, all over, and freed again. */
#include "defect.h"
#include <string.h>

int main(void) {
    char *volatile a = malloc(50);
    tell(a);
    free(a);
    memset(a, 0, 50);
    free(a);
    return 0;
}
