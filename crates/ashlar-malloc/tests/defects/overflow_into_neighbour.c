/* A write beyond an object changes its neighbour, which the program reads. */
#include "defect.h"

int main(void) {
    enum { N = 100 };
    char *all[N];
    int changed = 0;
    for (int i = 0; i < N; i++) memset(all[i] = malloc(64), 7, 64);
    for (int i = 0; i < N; i++) all[i][64] = 9;
    for (int i = 0; i < N; i++) changed += all[i][0] == 9;
    for (int i = 0; i < N; i++) free(all[i]);
    return changed > N / 2 ? HARM : 0;
}
