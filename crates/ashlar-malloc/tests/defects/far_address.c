/* An address that no program can have is freed. */
#include "defect.h"

int main(void) {
    void *volatile a = (void *)0x4141414141414140;
    tell(a);
    free(a);
    return 0;
}
