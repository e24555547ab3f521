/* A local variable is freed by kfree. */
#include "cache.h"

int main(void) {
    long local[8] = {0};
    void *volatile a = local;
    start();
    kfree(a);
    return 0;
}
