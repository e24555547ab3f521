/* One object. */
#include <stdlib.h>

int main(void) {
    void *volatile object = malloc(100);
    free(object);
    return 0;
}
