/* An address one byte behind the start of an object is freed. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(50);
    tell(a + 1);
    free(a + 1);
    return 0;
}
