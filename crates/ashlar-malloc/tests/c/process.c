/* What a process is like on the library, for docs/process.md. The first argument says what to show:

   fds                   the open file descriptors after work in several threads
   threads               the number of threads: alone, with a thread of its own, and after that ended
   locked                VmLck in KiB after mlockall, as a user without privileges under a limit of 8 MiB
   small                 how many objects of 64 bytes there can be
   start                 nothing: the library starts, and the program ends
   all                   a bit of everything that makes system calls
   later NUMBER...       the same behind a filter that kills at all system calls but these
   under N NUMBER... PROGRAM ARGS   becomes a program behind such a filter of N numbers

   Exit code 77: not possible here. */
#include "must.h"
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sys/prctl.h>

static int numbers(const char *directory, char names[][16], int most) {
    int n = 0;
    DIR *dir = opendir(directory);
    MUST(dir != NULL);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir) && n < most)
            snprintf(names[n++], 16, "%s", entry->d_name);
    closedir(dir);
    return n;
}

/* The value that /proc has for a key in a file of lines such as `Key: value`. */
static void value(const char *file, const char *key, char out[64]) {
    char line[256];
    FILE *f = fopen(file, "r");
    MUST(f != NULL);
    out[0] = 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) sscanf(line + strlen(key), " %63s", out);
    fclose(f);
    MUST(out[0] != 0);
}

static void fds(void) {
    char names[64][16];
    work(1, 20000);
    threaded_work(3);
    malloc_trim(0);
    int n = numbers("/proc/self/fd", names, 64);
    for (int i = 0; i < n; i++) printf("%s\n", names[i]);
}

static pthread_barrier_t barrier;
static void *waits(void *arg) {
    work(5, 1000);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return arg;
}

/* Waits until a thread has the name, or the number of threads is right; a second at most. */
static void wait_for(const char *name, int number) {
    char names[64][16], file[64], found[64];
    for (int look = 0; look < 50; look++, usleep(20000)) {
        int n = numbers("/proc/self/task", names, 64);
        if (n == number) return;
        for (int i = 0; name && i < n; i++) {
            snprintf(file, sizeof file, "/proc/self/task/%s/status", names[i]);
            value(file, "Name:", found);
            if (!strcmp(found, name)) return;
        }
    }
}

/* `what: N` for the number of threads; then a line for each but the first two: name, SigBlk,
   scheduling policy. */
static void tell(const char *what) {
    char names[64][16], file[64], name[64], mask[64];
    int n = numbers("/proc/self/task", names, 64);
    printf("%s: %d\n", what, n);
    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof file, "/proc/self/task/%s/status", names[i]);
        value(file, "Name:", name);
        value(file, "SigBlk:", mask);
        if (strcmp(name, "process")) printf("%s %s %d\n", name, mask, sched_getscheduler(atoi(names[i])));
    }
}

static void threads(void) {
    pthread_t thread;
    prctl(PR_SET_NAME, "process");
    work(1, 20000);
    /* Much is given back. */
    for (int round = 0; round < 3; round++) {
        void *p[64];
        for (int i = 0; i < 64; i++) memset(p[i] = malloc(1 << 20), 1, 1 << 20);
        for (int i = 0; i < 64; i++) free(p[i]);
        usleep(300000);
        work(2, 2000);
    }
    tell("alone");
    pthread_barrier_init(&barrier, NULL, 2);
    MUST(pthread_create(&thread, NULL, waits, NULL) == 0);
    pthread_barrier_wait(&barrier);
    wait_for("ashlar-reaper", 0);
    tell("threaded");
    pthread_barrier_wait(&barrier);
    MUST(pthread_join(thread, NULL) == 0);
    wait_for(NULL, 1);
    tell("joined");
}

static int locked(void) {
    char kib[64];
    struct rlimit limit = {8 << 20, 8 << 20};
    free(malloc(10)); /* starts it */
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return 77;
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return 77;
    int done = mlockall(MCL_CURRENT | MCL_FUTURE);
    value("/proc/self/status", "VmLck:", kib);
    /* Memory that is locked is used as any other, and so is what comes after it. */
    work(3, 2000);
    printf("%s %s\n", done == 0 ? "locked" : "refused", kib);
    return 0;
}

static void small(void) {
    static char out[256];
    size_t n = 0;
    setvbuf(stdout, out, _IOFBF, sizeof out);
    for (char *p; (p = malloc(64)) != NULL; n++) *p = 1;
    MUST(errno == ENOMEM);
    printf("%zu\n", n);
}

static void filter(int n, char **allowed) {
    struct sock_filter code[256];
    unsigned at = 0;
    MUST(n < 100);
    code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < n; i++) {
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, atoi(allowed[i]), 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {at, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(77);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) _exit(77);
}

static void everything(void) {
    pthread_t thread;
    work(1, 20000);
    threaded_work(3);
    char *huge = malloc(40 << 20);
    MUST(huge != NULL);
    huge = realloc(huge, 100 << 20);
    MUST(huge != NULL);
    free(huge);
    /* With a thread of its own, so that the background thread has a few ticks. */
    pthread_barrier_init(&barrier, NULL, 2);
    MUST(pthread_create(&thread, NULL, waits, NULL) == 0);
    pthread_barrier_wait(&barrier);
    void *p[64];
    for (int i = 0; i < 64; i++) memset(p[i] = malloc(1 << 20), 1, 1 << 20);
    for (int i = 0; i < 64; i++) free(p[i]);
    usleep(700000);
    pid_t pid = fork();
    if (pid == 0) {
        work(4, 2000);
        _exit(7);
    }
    MUST(child_ended(pid, 7));
    pthread_barrier_wait(&barrier);
    MUST(pthread_join(thread, NULL) == 0);
    pid = vfork();
    if (pid == 0) _exit(7);
    MUST(child_ended(pid, 7));
    usleep(300000);
    work(5, 20000);
    malloc_trim(0);
    MUST(write(1, "well\n", 5) == 5);
    _exit(0);
}

int main(int argc, char **argv) {
    MUST(argc > 1);
    free(malloc(100));
    if (!strcmp(argv[1], "fds")) fds();
    if (!strcmp(argv[1], "threads")) threads();
    if (!strcmp(argv[1], "locked")) return locked();
    if (!strcmp(argv[1], "small")) small();
    if (!strcmp(argv[1], "all")) everything();
    if (!strcmp(argv[1], "later")) {
        free(malloc(10)); /* starts it */
        filter(argc - 2, argv + 2);
        everything();
    }
    if (!strcmp(argv[1], "under")) {
        int n = atoi(argv[2]);
        MUST(argc > 3 + n);
        filter(n, argv + 3);
        execv(argv[3 + n], argv + 3 + n);
        return 2;
    }
    return 0;
}
