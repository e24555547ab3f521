/* A stream whose writer takes `slow_stream_ms`. The thread that flushes it holds the lock of all
   streams meanwhile, which fork takes. `slow_stream_check` is called before that ends. */
#ifndef SLOW_STREAM_H
#define SLOW_STREAM_H
#include "behaviour.h"

static volatile int flushing;
static int slow_stream_ms = 1000;
static void (*slow_stream_check)(void);

static ssize_t writes_slowly(void *cookie, const char *bytes, size_t size) {
    (void)cookie, (void)bytes;
    flushing = 1;
    sleep_ms(slow_stream_ms);
    if (slow_stream_check) slow_stream_check();
    return size;
}
static void *flushes(void *unused) {
    cookie_io_functions_t functions = {NULL, writes_slowly, NULL, NULL};
    FILE *file = fopencookie(NULL, "w", functions);
    MUST(file != NULL);
    fputs("text", file);
    fflush(NULL);
    fclose(file);
    return unused;
}
#endif
