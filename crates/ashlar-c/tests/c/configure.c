/* Options of the program's own; the mode that must come of them is the argument. */
#include <ashlar.h>
#include "check.h"

int main(int argc, char **argv)
{
    struct ashlar_cache_info info;
    struct kmem_cache *s;
    char message[120];

    CHECK(argc == 2);
    CHECK(ashlar_configure("percpu=lock, colour=blue ,sheaf=9", message, sizeof(message)) == -EINVAL);
    CHECK(strstr(message, "colour=blue") != NULL);
    CHECK(ashlar_configure("max_order=1", NULL, 0) == 0);
    CHECK(strcmp(ashlar_mode(), argv[1]) == 0);
    CHECK(ashlar_configure("sheaf=10", NULL, 0) == -EBUSY);
    s = kmem_cache_create("configured", 4000, NULL, 0);
    ashlar_cache_info(s, &info);
    CHECK(info.sheaf_capacity == 9 && info.order <= 1);
    kmem_cache_destroy(s);
    puts("well");
    return 0;
}
