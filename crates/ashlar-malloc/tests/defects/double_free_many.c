/* Three hundred objects are freed twice. */
#include "defect.h"

int main(void) {
    char *all[300];
    for (int i = 0; i < 300; i++) all[i] = malloc(50);
    tell(all[0]);
    for (int i = 0; i < 600; i++) free(all[i % 300]);
    return 0;
}
