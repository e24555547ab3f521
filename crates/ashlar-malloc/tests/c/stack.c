/* How much stack the family uses at most: each operation runs in a signal handler on a stack of
   known contents, and what it changed is counted, less what an empty handler changes. Prints "NAME
   BYTES" lines; the bound is the test's. */
#include "must.h"
#include <malloc.h>

enum { STACK = 256 << 10 };
static unsigned char *stack;
static void (*operation)(void);

static void handler(int signal) {
    (void)signal;
    operation();
}
static size_t used(void (*what)(void)) {
    operation = what;
    memset(stack, 0xa7, STACK);
    raise(SIGUSR1);
    size_t clean = 0;
    while (clean < STACK && stack[clean] == 0xa7) clean++;
    return STACK - clean;
}

enum { MANY = 3000 };
static void *kept[MANY];
static void nothing(void) {}
static void first(void) { free(malloc(1)); }
static void small(void) {
    for (int i = 0; i < MANY; i++) kept[i] = malloc(16 + i % 40 * 16);
    for (int i = 0; i < MANY; i++) free(kept[i]);
}
static void medium(void) {
    for (int i = 0; i < 500; i++) kept[i] = malloc(1000 + i * 60);
    for (int i = 0; i < 500; i++) free(kept[i]);
}
static void large(void) {
    for (int i = 0; i < 200; i++) kept[i] = malloc(40000 + i * 10000);
    for (int i = 0; i < 200; i++) free(kept[i]);
}
static void huge(void) {
    void *p = malloc(64 << 20);
    free(realloc(p, 100 << 20));
}
static void reallocs(void) {
    void *p = NULL;
    for (size_t n = 1; n < 80 << 20; n += n / 2 + 1) p = realloc(p, n);
    for (size_t n = 80 << 20; n > 1; n -= n / 3 + 1) p = realloc(p, n);
    free(p);
}
static void aligned(void) {
    for (size_t a = 16; a < 16 << 20; a *= 2) free(aligned_alloc(a, 100));
    for (int i = 0; i < 500; i++) kept[i] = calloc(i, 100);
    for (int i = 0; i < 500; i++) free(kept[i]);
}
static void trim(void) { malloc_trim(0); }
static void info(void) { mallinfo2(); }
static void forks(void) {
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    waitpid(pid, NULL, 0);
}
static void stats(void) { malloc_stats(); }

int main(void) {
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t alternative = {.ss_sp = stack, .ss_size = STACK};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    MUST(sigaltstack(&alternative, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    static const struct { const char *name; void (*what)(void); } ALL[] = {
        {"first", first}, {"small", small}, {"medium", medium}, {"large", large}, {"huge", huge}, {"realloc", reallocs},
        {"aligned", aligned}, {"trim", trim}, {"mallinfo2", info}, {"fork", forks}, {"stats", stats},
    };
    size_t figures[sizeof ALL / sizeof *ALL], empty = used(nothing);
    for (unsigned i = 0; i < sizeof ALL / sizeof *ALL; i++) figures[i] = used(ALL[i].what) - empty;
    for (unsigned i = 0; i < sizeof ALL / sizeof *ALL; i++) printf("%s %zu\n", ALL[i].name, figures[i]);
    return 0;
}
