/* Promise: under RLIMIT_DATA memory ends with ENOMEM, and free gives it back. */
#include "behaviour.h"

int main(void) {
    struct rlimit limit = {200ul << 20, 200ul << 20};
    MUST(setrlimit(RLIMIT_DATA, &limit) == 0);
    static void *p[4000];
    for (int round = 0; round < 3; round++) {
        int count = 0;
        errno = 0;
        while (count < 4000 && (p[count] = malloc(200000)) != NULL) count++;
        MUST(count > 500 && count < 1100 && errno == ENOMEM);
        while (count > 0) free(p[--count]);
        work(round, 500);
    }
    return 0;
}
