/* Promise: mallinfo2 counts what is in use and comes back; malloc_info writes XML, and refuses
   options; malloc_stats writes to standard error. (tst-mallinfo2, tst-malloc_info.) */
#include "behaviour.h"

int main(void) {
    work(1, 1000);
    struct mallinfo2 before = mallinfo2();
    void *p[1000];
    for (int i = 0; i < 1000; i++) p[i] = malloc(5000);
    char *large = malloc(50 << 20);
    struct mallinfo2 during = mallinfo2();
    size_t used_before = before.uordblks + before.hblkhd, used = during.uordblks + during.hblkhd;
    MUST(used >= used_before + (52 << 20) && used < used_before + (90 << 20));
    for (int i = 0; i < 1000; i++) free(p[i]);
    free(large);
    struct mallinfo2 after = mallinfo2();
    MUST(after.uordblks + after.hblkhd < used_before + (10 << 20));
    (void)mallinfo();

    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    MUST(malloc_info(0, file) == 0);
    fclose(file);
    MUST(size > 20 && strstr(text, "<malloc") != NULL && strstr(text, "</malloc>") != NULL);
    free(text);
    MUST(malloc_info(1, stdout) != 0);

    int ends[2], kept = dup(2);
    MUST(pipe(ends) == 0 && fcntl(ends[0], F_SETPIPE_SZ, 1 << 20) > 0 && dup2(ends[1], 2) == 2);
    malloc_stats();
    fflush(stderr);
    dup2(kept, 2);
    char some[16];
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    MUST(read(ends[0], some, sizeof some) > 0);
    return 0;
}
