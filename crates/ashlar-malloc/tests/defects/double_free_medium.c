/* An object of 20,000 bytes is freed twice. */
#include "defect.h"

int main(void) {
    void *volatile a = malloc(20000);
    tell(a);
    free(a);
    free(a);
    return 0;
}
