/* What every program here shares: it tells the addresses that the report must name, and ends well
   if it gets so far. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <sys/mman.h>

static void tell(volatile void *address) {
    printf("%p\n", (void *)address);
    fflush(stdout);
}
