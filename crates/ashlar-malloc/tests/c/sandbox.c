/* A program that, once started, locks itself in: any system call that is not on the list kills it.
   The list is what the allocator needs for allocation and free (docs/process.md has all calls),
   without the background thread and fork, and write and exit. Exit code 77: no filters. */
#include "must.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sys/prctl.h>

static const int ALLOWED[] = {SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_membarrier, SYS_getcpu,
                              SYS_sched_yield, SYS_clock_nanosleep, SYS_clock_gettime, SYS_futex, /* the program's own: */
                              SYS_write, SYS_exit, SYS_exit_group, SYS_gettid, SYS_getpid, SYS_tgkill};

static volatile int go, ready;
static void *waits(void *seed) {
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    while (!go) usleep(1000);
    work((unsigned long)seed, 20000);
    syscall(SYS_exit, 0); /* the C library's own end of a thread needs more */
    return NULL;
}

int main(void) {
    void *first = malloc(10); /* starts it */
    pthread_t t[3];
    for (long i = 0; i < 3; i++) MUST(pthread_create(&t[i], NULL, waits, (void *)(i + 3)) == 0);
    while (ready < 3) usleep(1000);
    struct sock_filter code[64];
    unsigned n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < sizeof ALLOWED / sizeof *ALLOWED; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ALLOWED[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {n, code};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) return 77;
    go = 1;
    work(1, 50000);
    char *huge = malloc(40 << 20);
    MUST(huge != NULL);
    huge = realloc(huge, 100 << 20);
    MUST(huge != NULL);
    free(huge);
    free(first);
    malloc_trim(0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    work(2, 20000);
    if (write(1, "well\n", 5) != 5) return 1;
    _exit(0);
}
