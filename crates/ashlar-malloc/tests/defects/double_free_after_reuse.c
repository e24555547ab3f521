/* An object is freed again after another owner got it, who then shares it with a third. */
#include "defect.h"

int main(void) {
    char *volatile a = malloc(50), *volatile b, *volatile third;
    tell(a);
    free(a);
    b = malloc(50);
    free(a);
    third = malloc(50);
    return b == third ? HARM : 0;
    return 0;
}
