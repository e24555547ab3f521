/* An object is read after its free, when it is another one: the program reads that one. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(64), *volatile b;
    free(a);
    b = malloc(64);
    memset(b, 0x53, 64);
    return a[40] == 0x53 ? HARM : 0;
    return 0;
}
