/* Promise: the environment and the working directory are the program's: malloc does not read them
   after the start, nor changes them, and works without. */
#include "behaviour.h"

int main(void) {
    MUST(getenv("PATH") != NULL && chdir("/") == 0);
    static char *empty[] = {NULL};
    environ = empty;
    threaded_work(3);
    free(malloc(40 << 20));
    MUST(environ == empty && environ[0] == NULL);
    environ = NULL;
    work(1, 500);
    free(malloc(8 << 20));
    clearenv();
    char name[20];
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "NAME%d", i % 50);
        MUST(setenv(name, "some value that is longer than a few bytes", 1) == 0);
    }
    for (int i = 0; i < 25; i++) {
        snprintf(name, sizeof name, "NAME%d", i);
        MUST(unsetenv(name) == 0);
    }
    int count = 0;
    while (environ[count]) count++;
    MUST(count == 25);
    return 0;
}
