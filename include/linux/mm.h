/* <linux/mm.h> for kernel-style code on ashlar: where kvmalloc and kvfree are looked for. */
#ifndef ASHLAR_LINUX_MM_H
#define ASHLAR_LINUX_MM_H

#include <linux/slab.h>

#endif
