/* Promise: memory that was freed under RLIMIT_DATA is there for the stacks of threads. */
#include "behaviour.h"

int main(void) {
    struct rlimit limit = {200ul << 20, 200ul << 20};
    MUST(setrlimit(RLIMIT_DATA, &limit) == 0);
    static void *p[4000];
    int count = 0;
    while (count < 4000 && (p[count] = malloc(200000)) != NULL) count++;
    while (count > 0) free(p[--count]);
    malloc_trim(0);
    threaded_work(2);
    return 0;
}
