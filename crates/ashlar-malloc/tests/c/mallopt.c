/* Prints what mallopt returns for each key that there is or was, for unknown ones, and for values
   at all bounds. */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>

extern int __libc_mallopt(int, int);

int main(void) {
    static const int keys[] = {
        M_MXFAST, M_NLBLKS, M_GRAIN, M_KEEP, M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX,
        M_CHECK_ACTION, M_PERTURB, M_ARENA_TEST, M_ARENA_MAX, 0, 5, 100, -9, INT_MAX, INT_MIN,
    };
    static const int values[] = {
        INT_MIN, -1, 0, 1, 2, 64, 80, 81, 159, 160, 161, 4096, 1 << 20, 32 << 20, (32 << 20) + 1, INT_MAX,
    };
    int (*functions[])(int, int) = {mallopt, __libc_mallopt};
    for (int f = 0; f < 2; f++) {
        for (unsigned k = 0; k < sizeof keys / sizeof *keys; k++) {
            printf("key %d:", keys[k]);
            for (unsigned v = 0; v < sizeof values / sizeof *values; v++) {
                /* Here glibc's answer depends on its version; that of 2.36 is 1. */
                if (keys[k] == M_MMAP_THRESHOLD && (unsigned)values[v] > 32 << 20) continue;
                errno = 0;
                printf(" %d=%d/%d", values[v], functions[f](keys[k], values[v]), errno);
            }
            puts("");
        }
    }
    return 0;
}
