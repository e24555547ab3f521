/* forbid ERRNO NAME,NAME... PROGRAM ARGS...: becomes the program, under a seccomp filter that
   answers ERRNO to these system calls. Exit code 77: no filters here. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct { const char *name; int number; } CALLS[] = {
    {"membarrier", SYS_membarrier}, {"memfd_create", SYS_memfd_create}, {"rseq", 334}, {"mbind", SYS_mbind}, {"getcpu", SYS_getcpu},
    {"madvise", SYS_madvise}, {"sched_setaffinity", SYS_sched_setaffinity}, {"sched_getaffinity", SYS_sched_getaffinity},
    {"getrandom", SYS_getrandom}, {"sysinfo", SYS_sysinfo}, {"prlimit64", SYS_prlimit64}, {"mremap", SYS_mremap},
    {"openat", SYS_openat}, {"open", SYS_open}, {"sched_yield", SYS_sched_yield}, {"clock_nanosleep", SYS_clock_nanosleep},
    {"clone", SYS_clone},
};

int main(int argc, char **argv) {
    struct sock_filter code[64];
    unsigned n = 0;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (char *name = strtok(argv[2], ","); name; name = strtok(NULL, ",")) {
        unsigned i = 0;
        while (i < sizeof CALLS / sizeof *CALLS && strcmp(CALLS[i].name, name)) i++;
        if (i == sizeof CALLS / sizeof *CALLS) return fprintf(stderr, "forbid: %s?\n", name), 2;
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALLS[i].number, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | atoi(argv[1]));
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 77;
    execv(argv[3], argv + 3);
    perror(argv[3]);
    return 2;
}
