/* Bytes behind an object are read: they are those of the next one. */
#include "defect.h"

int main(void) {
    enum { N = 100 };
    char *all[N];
    int told = 0;
    for (int i = 0; i < N; i++) memset(all[i] = malloc(64), 0x53, 64);
    for (int i = 0; i < N; i++) told += all[i][64] == 0x53;
    return told > N / 2 ? HARM : 0;
}
