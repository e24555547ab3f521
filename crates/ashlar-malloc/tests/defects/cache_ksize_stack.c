/* The size of a local variable is asked for. */
#include "cache.h"

int main(void) {
    long local[8] = {0};
    void *volatile a = local;
    start();
    return ksize(a) != 0;
    return 0;
}
