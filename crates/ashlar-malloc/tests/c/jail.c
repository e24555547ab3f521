/* jail DIRECTORY PROGRAM ARGS...: becomes the program with the directory as its root. Exit code 77:
   not allowed. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (chroot(argv[1]) != 0 && (unshare(CLONE_NEWUSER) != 0 || chroot(argv[1]) != 0)) return 77;
    if (chdir("/") != 0) return 77;
    execv(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}
