/* A signal handler leaves malloc and free by siglongjmp, in the middle of their fast paths. (C
   gives no promise for that, and where a lock is held nothing could be promised.) The block that
   was on its way is lost, and nothing else happens: no block gets two owners. */
#include "must.h"
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <setjmp.h>
#include <sys/time.h>
#include <ucontext.h>

static sigjmp_buf back;
static volatile sig_atomic_t inside, jumps, aborts;
static struct { unsigned long start, size; } path[2];

/* On a fast path: in the function itself, or at the abort handler of its section, where the kernel
   sends a thread that a signal interrupts in the section. The signature stands before each of
   those. */
static int on_fast_path(unsigned long at) {
    unsigned before;
    for (int i = 0; i < 2; i++)
        if (at - path[i].start < path[i].size) return 1;
    memcpy(&before, (void *)(at - sizeof before), sizeof before);
    aborts += before == 0x53053053;
    return before == 0x53053053;
}

static void handler(int sig, siginfo_t *info, void *context) {
    if (inside && on_fast_path(((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP])) {
        inside = 0;
        jumps++;
        siglongjmp(back, 1);
    }
    (void)sig, (void)info;
}

static void find(int i, void *function) {
    Dl_info info;
    ElfW(Sym) *symbol;
    MUST(dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) != 0 && symbol != NULL && symbol->st_size > 0);
    path[i].start = (unsigned long)function;
    path[i].size = symbol->st_size;
}

enum { KEPT = 512 };
static unsigned long *kept[KEPT];

int main(void) {
    find(0, dlsym(RTLD_DEFAULT, "malloc"));
    find(1, dlsym(RTLD_DEFAULT, "free"));
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER};
    MUST(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval often = {{0, 100}, {0, 100}};
    struct rng r = {7};
    volatile unsigned long round = 0;
    setitimer(ITIMER_REAL, &often, NULL);
    while (aborts < 100 && round < 100000000) {
        volatile int at = next(&r) % KEPT;
        round++;
        if (sigsetjmp(back, 0) != 0) {
            /* Whatever it was about: it is not touched again. */
            kept[at] = NULL;
            continue;
        }
        unsigned long *old = kept[at];
        if (old != NULL) {
            MUST(old[0] == (unsigned long)old && old[1] == (unsigned long)at);
            inside = 1;
            free(old);
            inside = 0;
            kept[at] = NULL;
        } else {
            size_t size = 16 + next(&r) % 400;
            inside = 1;
            unsigned long *new = malloc(size);
            inside = 0;
            MUST(new != NULL);
            new[0] = (unsigned long)new;
            new[1] = at;
            kept[at] = new;
        }
    }
    often = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    MUST(jumps > 20 && aborts > 5);
    for (int i = 0; i < KEPT; i++) {
        if (kept[i]) MUST(kept[i][0] == (unsigned long)kept[i] && kept[i][1] == (unsigned long)i);
        free(kept[i]);
    }
    work(1, 10000);
    puts("well");
    return 0;
}
