/*
 * Makes DPDK's mempool_perf_autotest end in seconds: it measures each of its 720 cells for five
 * seconds of a clock whose frequency it asks the library for. This library, preloaded, answers with
 * a part of it. The figures stay those of the test: objects in a known number of cycles of the
 * time-stamp counter, which the first line of output tells.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#define DIVISOR 200

uint64_t rte_get_tsc_hz(void)
{
	static uint64_t hz;

	if (hz == 0) {
		uint64_t (*real)(void) = (uint64_t (*)(void))dlsym(RTLD_NEXT, "rte_get_tsc_hz");

		if (real == NULL || real() == 0)
			return 0;
		hz = real() / DIVISOR;
		printf("short_time hz=%llu\n", (unsigned long long)hz);
	}
	return hz;
}

/* A reader of the output line by line must not wait for the end. */
__attribute__((constructor)) static void start(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
}
