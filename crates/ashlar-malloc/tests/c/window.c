/* What the process shows of its allocator: a line for each mapping named `/memfd:ashlar`, with its
   access and its first bytes; the same for a child of fork, which allocated before. */
#include "must.h"

static void show(const char *who) {
    char line[512], access[8];
    unsigned long start;
    FILE *maps = fopen("/proc/self/maps", "r");
    MUST(maps != NULL);
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "/memfd:ashlar ") && sscanf(line, "%lx-%*x %7s", &start, access) == 2)
            printf("%s %s %.6s\n", who, access, (const char *)start);
    fclose(maps);
    fflush(stdout);
}

int main(void) {
    free(malloc(10));
    show("parent");
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        free(malloc(10));
        show("child");
        _exit(0);
    }
    MUST(waitpid(child, NULL, 0) == child);
    puts("well");
    return 0;
}
