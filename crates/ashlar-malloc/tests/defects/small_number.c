/* A small number is freed. */
#include "defect.h"

int main(void) {
    void *volatile a = (void *)0x40;
    tell(a);
    free(a);
    return 0;
}
