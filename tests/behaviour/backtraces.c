/* Promise: backtrace, backtrace_symbols and dl_iterate_phdr allocate, also in a handler for SIGABRT
   that a misused block raises. (glibc's tst-malloc-backtrace.) */
/* flags: -rdynamic */
#include "behaviour.h"
#include <execinfo.h>
#include <link.h>

static void traces(int number) {
    void *frames[30];
    int count = backtrace(frames, 30);
    char **names = backtrace_symbols(frames, count);
    MUST(names != NULL && count > 1 && number == SIGABRT);
    free(names);
    _exit(7);
}
static int counts(struct dl_phdr_info *info, size_t size, void *data) {
    free(strdup(info->dlpi_name));
    (void)size;
    ++*(int *)data;
    return 0;
}
int main(void) {
    int count = 0;
    dl_iterate_phdr(counts, &count);
    MUST(count > 1);
    for (int threads = 0; threads < 2; threads++) {
        pid_t pid = fork();
        if (pid == 0) {
            signal(SIGABRT, traces);
            if (threads) crowd_begins(2);
            work(1, 200);
            abort();
        }
        MUST(pid > 0 && child_ended(pid, 7));
    }
    return 0;
}
