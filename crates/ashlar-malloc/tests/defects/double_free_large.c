/* A run of pages is freed twice. */
#include "defect.h"

int main(void) {
    void *volatile a = malloc(300000);
    tell(a);
    free(a);
    free(a);
    return 0;
}
