/* A byte behind 40 of kmalloc is written, which are then freed. */
#include "cache.h"

int main(void) {
    char *volatile a = kmalloc(40, GFP_KERNEL);
    a[40] = 1;
    kfree(a);
    return 0;
}
