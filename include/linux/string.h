/* <linux/string.h> for kernel-style code on ashlar: the C library's, and copies in memory of
   kmalloc. */
#ifndef ASHLAR_LINUX_STRING_H
#define ASHLAR_LINUX_STRING_H

#include <linux/types.h>
#include <string.h>

#endif
