/* A small object is freed twice; between, enough others that it left the sheaves of its CPU. */
#include "defect.h"

enum { N = 20000 };
static void *all[N];
int main(void) {
    for (int i = 0; i < N; i++) all[i] = malloc(50);
    void *volatile a = all[7];
    tell(a);
    for (int i = 0; i < N; i++) free(all[i]);
    malloc_trim(0);
    void *keep = malloc(2000);
    free(a);
    return keep == NULL;
}
