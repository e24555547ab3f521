/* limited KIND BYTES PROGRAM ARGS..: becomes the program under a limit: as, data, fsize, stack. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int kind = strcmp(argv[1], "as") == 0      ? RLIMIT_AS
               : strcmp(argv[1], "data") == 0  ? RLIMIT_DATA
               : strcmp(argv[1], "fsize") == 0 ? RLIMIT_FSIZE
                                               : RLIMIT_STACK;
    struct rlimit limit = {strtoull(argv[2], NULL, 10), strtoull(argv[2], NULL, 10)};
    if (setrlimit(kind, &limit) != 0) return 77;
    execv(argv[3], argv + 3);
    perror(argv[3]);
    return 2;
}
