// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests A, B and C of the lab, run by the kernel itself on the slab allocator that it was built
 * with.
 *
 * Copyright (C) 2026 the ashlar developers
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of
 * version 2 of the GNU General Public License as published by the Free Software Foundation. It
 * comes without any warranty.
 *
 * build.sh compiles this file into a User-Mode Linux kernel. It runs as the last of the initcalls,
 * prints one line for each measured pass, and switches the machine off: there is no user space. The
 * loops, touches, order of frees, clock and warm-up are those of `ashlar bench`, so that the
 * figures can stand in one table.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/mm.h>
#include <linux/reboot.h>
#include <linux/slab.h>
#include <linux/utsname.h>
#include <linux/vmalloc.h>

#define MOST_SIZES 32
/* Unmeasured passes right before each measured one: the turns of other sizes have evicted what this
   one had. */
#define WARMING_PASSES 2

enum { TOUCH_ALLOC = 22, TOUCH_FREE = 23 };
enum { TEST_A, TEST_B, TEST_C, TESTS };

static unsigned int objects = 10000;
module_param(objects, uint, 0444);
MODULE_PARM_DESC(objects, "objects of a pass");

static unsigned int rounds = 20;
module_param(rounds, uint, 0444);
MODULE_PARM_DESC(rounds, "measured rounds, each with every size");

static unsigned int sizes[MOST_SIZES] = { 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384 };
static unsigned int size_count;
module_param_array(sizes, uint, &size_count, 0444);
MODULE_PARM_DESC(sizes, "object sizes in bytes, separated by commas");

#if defined(CONFIG_SLAB)
static const char allocator[] = "slab";
#elif defined(CONFIG_SLOB)
static const char allocator[] = "slob";
#else
static const char allocator[] = "slub";
#endif

/* The time-stamp counter, with everything before it done and nothing after it begun. */
static __always_inline u64 clock(void)
{
	u32 low, high;

	asm volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
	return (u64)high << 32 | low;
}

static noinline bool fill(void **slots, size_t size)
{
	unsigned int at;

	for (at = 0; at < objects; at++) {
		u8 *object = kmalloc(size, GFP_KERNEL);

		slots[at] = object;
		if (!object)
			return false;
		WRITE_ONCE(*object, TOUCH_ALLOC);
	}
	return true;
}

/* In the order of the allocations; ends early where fill() did. */
static noinline void drain(void **slots)
{
	unsigned int at;

	for (at = 0; at < objects && slots[at]; at++) {
		u8 *object = slots[at];

		WRITE_ONCE(*object, TOUCH_FREE);
		kfree(object);
	}
}

static noinline bool pairs(size_t size)
{
	unsigned int at;

	for (at = 0; at < objects; at++) {
		void *object = kmalloc(size, GFP_KERNEL);

		if (!object)
			return false;
		kfree(object);
	}
	return true;
}

/* One pass of all three tests. */
static bool pass(void **slots, size_t size, u64 ticks[TESTS])
{
	u64 start = clock();
	bool complete = fill(slots, size);

	ticks[TEST_A] = clock() - start;
	start = clock();
	drain(slots);
	ticks[TEST_B] = clock() - start;
	if (!complete)
		return false;
	start = clock();
	complete = pairs(size);
	ticks[TEST_C] = clock() - start;
	return complete;
}

/* All rounds; nothing is printed on the way. */
static bool measure(void **slots, u64 (*ticks)[TESTS])
{
	unsigned int round, at, warm;

	for (round = 0; round < rounds; round++) {
		for (at = 0; at < size_count; at++) {
			u64 *cell = ticks[round * size_count + at];

			for (warm = 0; warm <= WARMING_PASSES; warm++) {
				if (!pass(slots, sizes[at], cell)) {
					pr_notice("ashlar-bench: failed: no memory for %u objects of %u bytes\n",
						  objects, sizes[at]);
					return false;
				}
			}
		}
	}
	return true;
}

static int __init ashlar_bench(void)
{
	void **slots;
	u64 (*ticks)[TESTS];
	unsigned int round, at;

	if (!size_count)
		for (size_count = 0; size_count < MOST_SIZES && sizes[size_count];)
			size_count++;
	pr_notice("ashlar-bench: begin allocator=%s release=%s objects=%u rounds=%u\n",
		  allocator, init_utsname()->release, objects, rounds);
	/* Cleared, so that the pages are there before the clock runs. */
	slots = vzalloc(array_size(objects, sizeof(*slots)));
	ticks = vzalloc(array3_size(rounds, size_count, sizeof(*ticks)));
	if (!slots || !ticks) {
		pr_notice("ashlar-bench: failed: no memory for the tables\n");
	} else if (measure(slots, ticks)) {
		for (round = 0; round < rounds; round++) {
			for (at = 0; at < size_count; at++) {
				u64 *cell = ticks[round * size_count + at];

				pr_notice("ashlar-bench: pass %u %llu %llu %llu\n",
					  sizes[at], cell[TEST_A], cell[TEST_B], cell[TEST_C]);
			}
		}
		pr_notice("ashlar-bench: end\n");
	}
	kernel_power_off();
	return 0;
}
/* After the console, which is a late initcall itself. */
late_initcall_sync(ashlar_bench);
