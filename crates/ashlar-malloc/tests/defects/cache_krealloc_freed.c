/* Freed memory of kmalloc is reallocated. */
#include "cache.h"

int main(void) {
    void *volatile a = kmalloc(100000, GFP_KERNEL);
    kfree(a);
    return krealloc(a, 200000, GFP_KERNEL) == NULL;
    return 0;
}
