/* An object is read before it was written, and holds what its last owner left. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(64), *volatile b;
    memset(a, 0x53, 64);
    free(a);
    b = malloc(64);
    return b[40] == 0x53 ? HARM : 0;
    return 0;
}
