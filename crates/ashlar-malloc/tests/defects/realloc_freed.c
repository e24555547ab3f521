/* A freed small object is given to realloc. */
#include "defect.h"

int main(void) {
    void *volatile a = malloc(50);
    tell(a);
    free(a);
    return realloc(a, 500) == NULL;
}
