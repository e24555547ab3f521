/* A large object of kmalloc is freed twice. */
#include "cache.h"

int main(void) {
    void *volatile a = kmalloc(100000, GFP_KERNEL);
    kfree(a);
    kfree(a);
    return 0;
}
