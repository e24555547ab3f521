/* A small object is freed twice, others of its size between. */
#include "defect.h"

int main(void) {
    void *all[8];
    for (int i = 0; i < 8; i++) all[i] = malloc(50);
    void *volatile a = all[3];
    tell(a);
    for (int i = 0; i < 8; i++) free(all[i]);
    free(a);
    return 0;
}
