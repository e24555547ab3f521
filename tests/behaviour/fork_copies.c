/* Promise: memory of a child is its own: what it writes and frees does not show in the parent. */
#include "behaviour.h"

int main(void) {
    const size_t sizes[] = {16, 200, 4000, 60000, 1 << 20, 40 << 20};
    char *p[6];
    for (int i = 0; i < 6; i++) {
        MUST((p[i] = malloc(sizes[i])) != NULL);
        memset(p[i], 'p', sizes[i]);
    }
    pid_t pid = fork();
    if (pid == 0) {
        for (int i = 0; i < 6; i++) {
            MUST(p[i][0] == 'p' && p[i][sizes[i] - 1] == 'p');
            memset(p[i], 'c', sizes[i]);
            free(p[i]);
        }
        for (int i = 0; i < 6; i++) memset(malloc(sizes[i]), 'd', sizes[i]);
        _exit(7);
    }
    MUST(child_ended(pid, 7));
    for (int i = 0; i < 6; i++) {
        for (size_t at = 0; at < sizes[i]; at++) MUST(p[i][at] == 'p');
        free(p[i]);
    }
    return 0;
}
