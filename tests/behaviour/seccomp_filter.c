/* Promise: under a filter that is set after the start, malloc works. The filter kills for system
   calls of sockets, processes and signals, and refuses to open files, which glibc may try. */
#include "behaviour.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>

static const int ALLOWED[] = {
    SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_brk, SYS_futex, SYS_membarrier,
    SYS_getcpu, SYS_sched_yield, SYS_clock_nanosleep, SYS_nanosleep, SYS_clock_gettime,
    SYS_sched_getaffinity, SYS_getrandom, SYS_gettid,
    /* the program's own: */
    SYS_write, SYS_exit, SYS_exit_group, SYS_getpid};

static volatile int go, ready;
static void *waits(void *seed) {
    work((unsigned long)seed, 100);
    __atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    while (!go) usleep(1000);
    work((unsigned long)seed, 3000);
    free(malloc(8 << 20));
    __atomic_sub_fetch(&ready, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_exit, 0); /* the C library's end of a thread needs more */
    return NULL;
}
int main(void) {
    work(9, 100);
    pthread_t t;
    for (long i = 0; i < 3; i++) MUST(pthread_create(&t, NULL, waits, (void *)(i + 3)) == 0);
    while (ready < 3) usleep(1000);
    struct sock_filter code[64];
    unsigned n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < sizeof ALLOWED / sizeof *ALLOWED; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ALLOWED[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {(unsigned short)n, code};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    NEEDS(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
    go = 1;
    work(1, 5000);
    char *huge = malloc(40 << 20);
    MUST(huge != NULL && (huge = realloc(huge, 100 << 20)) != NULL);
    free(huge);
    malloc_trim(0);
    while (ready > 0) usleep(1000);
    work(2, 3000);
    _exit(0);
}
