/* Promise: malloc needs no file descriptor: it works with limits of 3 to 0 of them. */
#include "behaviour.h"

int main(void) {
    for (int files = 3; files >= 0; files--) {
        pid_t pid = fork();
        if (pid == 0) {
            struct rlimit limit = {files, files};
            MUST(setrlimit(RLIMIT_NOFILE, &limit) == 0);
            work(files, 500);
            free(malloc(40 << 20));
            threaded_work(4);
            malloc_trim(0);
            pid_t second = fork();
            if (second == 0) {
                work(files, 100);
                _exit(6);
            }
            MUST(child_ended(second, 6));
            _exit(7);
        }
        MUST(child_ended(pid, 7));
    }
    return 0;
}
