/* The address of the middle of an object is reallocated. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(208);
    tell(a + 96);
    return realloc(a + 96, 500) == NULL;
    return 0;
}
