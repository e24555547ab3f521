/* A process that pretends to be on ashlar: hostile SIZE FORMAT PATTERN
   Its window has the right head and is filled with the 8 bytes PATTERN (hexadecimal); so is a
   mapping of 16 MiB at that address, if the system allows it there. Prints "ready" and sleeps. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    size_t size = strtoul(argv[1], NULL, 10);
    uint32_t head[2] = {atoi(argv[2]), size};
    uint64_t pattern = strtoull(argv[3], NULL, 16), *words = calloc(size, 1);
    for (size_t i = 0; i < size / 8; i++) words[i] = pattern;
    memcpy(words, "ashlar\nW", 8);
    memcpy(words + 1, head, 8);
    int file = memfd_create("ashlar", MFD_CLOEXEC);
    if (file < 0 || write(file, words, size) != (ssize_t)size) return 77;
    if (mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED) return 77;
    size_t bytes = 16 << 20;
    uint64_t *at = mmap((void *)(pattern & ~4095ul), bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != MAP_FAILED)
        for (size_t i = 0; i < bytes / 8; i++) at[i] = pattern;
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
