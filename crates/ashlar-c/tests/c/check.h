/* What the test programs share: a check that says where it failed. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                              \
    do {                                                                         \
        if (!(what)) {                                                           \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);   \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

/* That an expression gives NULL, and why. */
#define REFUSED(expression, why)        \
    do {                                \
        errno = 0;                      \
        CHECK((expression) == NULL);    \
        CHECK(errno == (why));          \
    } while (0)

static inline int all_bytes(const void *at, size_t size, int value)
{
    const unsigned char *bytes = (const unsigned char *)at;
    size_t i;

    for (i = 0; i < size; i++)
        if (bytes[i] != (unsigned char)value)
            return 0;
    return 1;
}

#endif
