/* <linux/gfp.h> for kernel-style code on ashlar: the flags of allocations. */
#ifndef ASHLAR_LINUX_GFP_H
#define ASHLAR_LINUX_GFP_H

#include <linux/types.h>

#endif
