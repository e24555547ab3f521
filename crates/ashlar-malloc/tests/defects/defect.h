/* What every program here shares: it tells the addresses that the report must name, and ends well
   if it gets so far. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <sys/mman.h>

/* Keeps the program on the CPU that it starts on. An object that is freed lies in the sheaf of a
   CPU: a thread that moves to another one in between would not find it there. */
__attribute__((constructor)) static void stay(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

/* The exit code of a program whose data the defect has changed or told. */
enum { HARM = 42 };

static inline void tell(volatile void *address) {
    printf("%p\n", (void *)address);
    fflush(stdout);
}
