/* An address inside an aligned object is freed. */
#include "defect.h"

int main(void) {
    char *volatile a = aligned_alloc(256, 1024);
    tell(a + 256);
    free(a + 256);
    return 0;
}
