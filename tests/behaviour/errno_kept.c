/* Promise: free leaves errno as it is, for null, small, large and protected situations.
   (glibc's tst-free-errno.) */
#include "behaviour.h"

int main(void) {
    const size_t sizes[] = {0, 10, 1000, 30000, 200000, 5 << 20, 64 << 20};
    for (int round = 0; round < 50; round++)
        for (int i = 0; i < 7; i++) {
            void *p = malloc(sizes[i]);
            errno = 1234;
            free(p);
            free(NULL);
            MUST(errno == 1234);
        }
    /* More mappings than the kernel allows, so that giving memory back fails inside. */
    enum { COUNT = 70000 };
    static void *maps[COUNT];
    char *p = malloc(40 << 20);
    int count = 0;
    while (count < COUNT) {
        maps[count] = mmap(NULL, 4096, count % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (maps[count] == MAP_FAILED) break;
        count++;
    }
    errno = 1234;
    free(p);
    MUST(errno == 1234);
    while (count > 0) munmap(maps[--count], 4096);
    return 0;
}
