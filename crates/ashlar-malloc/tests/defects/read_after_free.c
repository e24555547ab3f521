/* What an object held is read after its free. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(64);
    memset(a, 0x53, 64);
    free(a);
    return a[40] == 0x53 ? HARM : 0;
    return 0;
}
