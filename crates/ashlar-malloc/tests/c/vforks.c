/* Children of vfork that allocate and free beside busy threads, in the parent's memory. No block
   may be handed out twice. */
#include "must.h"

static volatile int stop;
static void *run(void *seed) {
    for (unsigned long i = 0; !stop; i++) work((unsigned long)seed * 1000 + i, 500);
    return NULL;
}
/* Allocates in the child and leaves blocks to the parent, which shares its memory. */
static __attribute__((noinline)) pid_t spawn(void *volatile *left) {
    pid_t pid = vfork();
    if (pid == 0) {
        for (unsigned long round = 0; round < 40; round++) {
            unsigned long *p[64];
            for (unsigned long i = 0; i < 64; i++) {
                p[i] = malloc(16 + i % 8 * 16);
                p[i][0] = p[i][1] = round * 64 + i;
            }
            for (unsigned long i = 0; i < 64; i++) {
                MUST(p[i][0] == round * 64 + i && p[i][1] == p[i][0]);
                free(p[i]);
            }
        }
        *left = malloc(100);
        _exit(7);
    }
    return pid;
}

int main(void) {
    pthread_t t[6];
    for (long i = 0; i < 6; i++) MUST(pthread_create(&t[i], NULL, run, (void *)(i + 1)) == 0);
    for (int i = 0; i < 1500; i++) {
        void *volatile left = NULL;
        pid_t pid = spawn(&left);
        MUST(pid > 0 && child_ended(pid, 7) && left != NULL);
        free(left);
    }
    /* What fails says why. */
    struct rlimit none = {0, 0};
    if (getuid() != 0 && setrlimit(RLIMIT_NPROC, &none) == 0) {
        errno = 0;
        MUST(vfork() == -1 && errno == EAGAIN);
    }
    /* And the way it is meant to be used. */
    for (int i = 0; i < 20; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
            _exit(9);
        }
        MUST(pid > 0 && child_ended(pid, 3));
    }
    stop = 1;
    for (int i = 0; i < 6; i++) pthread_join(t[i], NULL);
    puts("well");
    return 0;
}
