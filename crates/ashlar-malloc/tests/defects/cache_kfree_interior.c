/* The address of the middle of an object of kmalloc is freed, and another owner gets it. */
#include "cache.h"

int main(void) {
    char *volatile a = kmalloc(64, GFP_KERNEL);
    kfree(a + 8);
    return kmalloc(64, GFP_KERNEL) == a + 8 ? HARM : 0;
    return 0;
}
