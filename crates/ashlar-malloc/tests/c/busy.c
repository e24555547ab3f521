/* A bit of everything: threads, huge blocks that move, trimming, a fork. With an argument it prints
   the mode too. */
#include "must.h"
#include <malloc.h>

int main(int argc, char **argv) {
    work(1, 20000);
    threaded_work(4);
    char *huge = malloc(40 << 20);
    MUST(huge != NULL);
    memset(huge, 1, 40 << 20);
    huge = realloc(huge, 80 << 20);
    MUST(huge != NULL && huge[(40 << 20) - 1] == 1);
    free(huge);
    for (int i = 0; i < 50; i++) {
        void *p[64];
        for (int k = 0; k < 64; k++) MUST((p[k] = malloc(100000)) != NULL);
        for (int k = 0; k < 64; k++) free(p[k]);
    }
    malloc_trim(0);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        work(2, 2000);
        _exit(7);
    }
    MUST(child_ended(pid, 7));
    work(3, 2000);
    if (argc > 1) {
        char text[200000] = "";
        FILE *f = fmemopen(text, sizeof text, "w");
        MUST(f != NULL && malloc_info(0, f) == 0 && fclose(f) == 0);
        char *mode = strstr(text, "<mode>");
        MUST(mode != NULL);
        printf("%.*s ", (int)strcspn(mode + 6, "<"), mode + 6);
    }
    puts("well");
    return 0;
}
