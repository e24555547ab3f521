/* Minimal <linux/types.h> for kernel-style code on ashlar: the system's, and the kernel's short
   names. */
#ifndef ASHLAR_LINUX_TYPES_H
#define ASHLAR_LINUX_TYPES_H

/* The system has a header of this name, which other headers of the system need. */
#if defined(__GNUC__)
#pragma GCC system_header
#include_next <linux/types.h>
#endif
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <ashlar.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#endif
