/* A small object is freed twice; its slab lives on. */
#include "defect.h"

enum { N = 20000 };
static void *all[N];
int main(void) {
    for (int i = 0; i < N; i++) all[i] = malloc(50);
    void *volatile a = all[7];
    tell(a);
    for (int i = 1; i < N; i += 2) free(all[i]);
    malloc_trim(0);
    free(a);
    return 0;
}
