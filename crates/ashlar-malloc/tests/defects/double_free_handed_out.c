/* An object is freed twice with another between, and two owners get it. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(50), *volatile b = malloc(50), *one[3];
    tell(a);
    free(a);
    free(b);
    free(a);
    for (int i = 0; i < 3; i++) one[i] = malloc(50);
    return one[0] == one[2] ? HARM : 0;
    return 0;
}
