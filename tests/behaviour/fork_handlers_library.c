/* Promise: fork handlers of a needed library, registered before all others, allocate. */
/* library: handlers */
#include "behaviour.h"

int handlers_calls(void);
int main(void) {
    crowd_begins(4);
    for (int i = 0; i < 80; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            work(i, 50);
            _exit(7);
        }
        MUST(pid > 0 && child_ended(pid, 7));
    }
    MUST(handlers_calls() == 160);
    crowd_ends();
    return 0;
}
