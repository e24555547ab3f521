/* Thread-local storage of 3 MiB, which the dynamic linker allocates at a thread's first access and
   the C library frees at its end. */
static __thread char large[3 << 20];
char *large_tls(void) {
    large[0]++;
    large[sizeof large - 1]++;
    return large;
}
