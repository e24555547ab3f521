/* A small object is freed twice, at once. */
#include "defect.h"

int main(void) {
    void *volatile a = malloc(50);
    tell(a);
    free(a);
    free(a);
    return 0;
}
