/* The address behind the last byte of an object is freed. */
#include "defect.h"

int main(void) {
    char *all[64];
    for (int i = 0; i < 64; i++) all[i] = malloc(208);
    char *volatile a = all[0] + 104;
    tell(a);
    free(a);
    return 0;
}
