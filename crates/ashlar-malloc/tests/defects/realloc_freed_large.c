/* A freed run of pages is given to realloc. */
#include "defect.h"

int main(void) {
    void *volatile a = malloc(300000);
    tell(a);
    free(a);
    return realloc(a, 500) == NULL;
}
