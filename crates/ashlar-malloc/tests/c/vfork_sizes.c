/* Children of vfork that allocate, where the C library registered an rseq area of another size.
   This program stands for that C library: it registers BYTES bytes for each thread, and tells TOLD
   in __rseq_size. Run it with GLIBC_TUNABLES=glibc.pthread.rseq=0. Exit code 77: this kernel takes
   no such area. */
#include <stddef.h>
#define main vforks
#include "vforks.c"
#undef main

struct area { unsigned cpu_id_start, cpu_id, rest[30]; };
static __thread struct area area __attribute__((aligned(128))) = {0, -1u, {0}};
/* Set before the allocator looks: a preinit function runs before every constructor. */
__attribute__((visibility("default"))) ptrdiff_t __rseq_offset = 1;
__attribute__((visibility("default"))) unsigned __rseq_size = TOLD;

static int enlist(void) { return syscall(SYS_rseq, &area, BYTES, 0, 0x53053053) == 0; }
static void first(void) {
    __rseq_offset = (char *)&area - (char *)__builtin_thread_pointer();
    if (!enlist()) _exit(77);
}
__attribute__((section(".preinit_array"), used)) static void (*at_first)(void) = first;

static void *busy(void *seed) {
    MUST(enlist());
    return run(seed);
}

int main(void) {
    const char *mode = getenv("MODE_IS");
    pthread_t t[4];
    for (long i = 0; i < 4; i++) MUST(pthread_create(&t[i], NULL, busy, (void *)(i + 1)) == 0);
    for (int i = 0; i < 400; i++) {
        void *volatile left = NULL;
        pid_t pid = spawn(&left);
        MUST(pid > 0 && child_ended(pid, 7) && left != NULL);
        free(left);
        /* The parent is registered again, on the CPU where it runs. */
        MUST((int)area.cpu_id >= 0);
        /* And a second registration is refused, because there is one. */
        MUST(!enlist());
    }
    stop = 1;
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    /* In between sections run: the area of a thread that allocates was armed. */
    unsigned long *armed = (unsigned long *)&area + 1;
    *armed = 0;
    for (int i = 0; i < 100 && *armed == 0; i++) free(malloc(100));
    MUST(mode == NULL || *armed != 0);
    puts("well");
    return 0;
}
