/* <linux/overflow.h> for kernel-style code on ashlar: sizes that saturate instead of wrapping
   around. */
#ifndef ASHLAR_LINUX_OVERFLOW_H
#define ASHLAR_LINUX_OVERFLOW_H

#include <linux/types.h>

/* True when the result does not fit; *d holds what fits of it. */
#define check_add_overflow(a, b, d) __builtin_add_overflow(a, b, d)
#define check_sub_overflow(a, b, d) __builtin_sub_overflow(a, b, d)
#define check_mul_overflow(a, b, d) __builtin_mul_overflow(a, b, d)

/* The product, or SIZE_MAX, which no allocation grants. */
static inline size_t size_mul(size_t factor1, size_t factor2)
{
    size_t bytes;

    return check_mul_overflow(factor1, factor2, &bytes) ? SIZE_MAX : bytes;
}

/* The sum, or SIZE_MAX. */
static inline size_t size_add(size_t addend1, size_t addend2)
{
    size_t bytes;

    return check_add_overflow(addend1, addend2, &bytes) ? SIZE_MAX : bytes;
}

/* The difference, or SIZE_MAX; SIZE_MAX stays what it is. */
static inline size_t size_sub(size_t minuend, size_t subtrahend)
{
    size_t bytes;

    if (minuend == SIZE_MAX || subtrahend == SIZE_MAX || check_sub_overflow(minuend, subtrahend, &bytes))
        return SIZE_MAX;
    return bytes;
}

#define array_size(a, b) size_mul(a, b)
#define array3_size(a, b, c) size_mul(size_mul(a, b), c)
/* Bytes of `count` elements of the array member `member` behind the pointer p. */
#define flex_array_size(p, member, count) size_mul(count, sizeof(*(p)->member))
/* Bytes of *p with `count` elements in its last member, an array. */
#define struct_size(p, member, count) size_add(sizeof(*(p)), flex_array_size(p, member, count))

#endif
