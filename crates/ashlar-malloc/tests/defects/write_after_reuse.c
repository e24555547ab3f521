/* An object is written after its free, when it is another one: that one changes. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(64), *volatile b;
    free(a);
    b = calloc(1, 64);
    a[5] = 1;
    return b[5] != 0 ? HARM : 0;
    return 0;
}
