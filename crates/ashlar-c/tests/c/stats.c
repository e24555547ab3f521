/* The figures of this process, by a call and at exit. */
#include <ashlar.h>
#include <unistd.h>
#include "check.h"

int main(void)
{
    struct kmem_cache *s = kmem_cache_create("counted", 4000, NULL, 0);
    char text[16384];
    ssize_t bytes;
    int ends[2];

    CHECK(s != NULL && kmem_cache_alloc(s, GFP_KERNEL) != NULL);
    CHECK(pipe(ends) == 0);
    CHECK(ashlar_stats_print(ends[1], 0) == 0);
    CHECK(ashlar_stats_print(ends[1], 1) == 0);
    close(ends[1]);
    bytes = 0;
    for (;;) {
        ssize_t more = read(ends[0], text + bytes, sizeof(text) - 1 - (size_t)bytes);
        if (more <= 0)
            break;
        bytes += more;
    }
    text[bytes] = 0;
    CHECK(strncmp(text, "ashlar ", 7) == 0 && strstr(text, "\ncounted ") != NULL);
    CHECK(strstr(text, "{\"ashlar\":\"") != NULL && strstr(text, "\"name\":\"counted\",\"bytes\":") != NULL);
    CHECK(ashlar_stats_print(-1, 1) == -EBADF);
    puts("well");
    return 0;
}
