/* Promise: without privilege, mlockall(MCL_CURRENT | MCL_FUTURE) works under a limit that fits what
   is used (8 to 64 MiB), and malloc, free and threads work after it, as real-time programs do. */
#include "behaviour.h"

int main(void) {
    struct rlimit limit;
    NEEDS(getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_max >= 8 << 20);
    limit.rlim_cur = limit.rlim_max > 64 << 20 ? 64 << 20 : limit.rlim_max;
    NEEDS(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    /* Root may lock all it likes, another user may not. */
    NEEDS(geteuid() != 0 || syscall(SYS_setresuid, 65534, 65534, 65534) == 0);
    work(1, 500);
    MUST(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    work(2, 500);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    pthread_t t;
    for (int i = 0; i < 5; i++) {
        MUST(pthread_create(&t, &attributes, worker, NULL) == 0);
        MUST(pthread_join(t, NULL) == 0);
    }
    char *p = malloc(512 << 10);
    MUST(p != NULL);
    memset(p, 1, 512 << 10);
    free(p);
    MUST(hide(malloc(100 << 20)) == NULL);
    return 0;
}
