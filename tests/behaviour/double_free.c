/* Habit: a second free of a block right after the first ends the program, for every kind of size,
   as glibc's checks do. (tst-tcfree1 to 3.) */
#include "behaviour.h"

int main(void) {
    const size_t sizes[] = {20, 100, 1000, 5000, 30000, 100000, 1 << 20, 40 << 20};
    for (int i = 0; i < 8; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            int null = open("/dev/null", O_WRONLY);
            dup2(null, 2);
            void *p = malloc(sizes[i]), *other = malloc(sizes[i]);
            free(p);
            free(hide(p));
            free(other);
            _exit(7);
        }
        int status;
        MUST(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    }
    return 0;
}
