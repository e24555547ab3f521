/* The program for another C library: busy.c without what musl has not. */
#include "must.h"
#include <malloc.h>

/* What the archive, built for glibc, refers to and never calls: Rust's standard library and gcc's
   unwinder. */
const char *gnu_get_libc_version(void) { return "2.36"; }
int __res_init(void) { return 0; }
int _dl_find_object(void *pc, void *result) { return (void)pc, (void)result, -1; }

int main(void) {
    work(1, 20000);
    threaded_work(4);
    char *huge = realloc(malloc(40 << 20), 80 << 20);
    MUST(huge != NULL);
    free(huge);
    pid_t pid = fork();
    if (pid == 0) {
        work(2, 2000);
        _exit(7);
    }
    MUST(child_ended(pid, 7));
    MUST(malloc_usable_size(malloc(100)) >= 100);
    puts("well");
    return 0;
}
