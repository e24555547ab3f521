/* preloading LIBRARY PROGRAM: becomes the program, with the library preloaded if there is one. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    if (*argv[1]) setenv("LD_PRELOAD", argv[1], 1);
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}
