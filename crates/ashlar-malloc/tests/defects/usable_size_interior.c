/* The size of the middle of an object is asked for. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(208);
    tell(a + 96);
    return malloc_usable_size(a + 96) == 0;
    return 0;
}
