/* Habit: programs use sbrk themselves, reserve 16 TiB, map at low and at fixed addresses. */
#include "behaviour.h"

int main(void) {
    work(1, 500);
    char *mine = sbrk(100000);
    MUST(mine != (void *)-1);
    memset(mine, 's', 100000);
    char *reserved = mmap(NULL, 16ul << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    MUST(reserved != MAP_FAILED);
    char *low = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    MUST(low != MAP_FAILED);
    memset(low, 'l', 1 << 20);
    void *p[500];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 500; i++) MUST((p[i] = malloc(i * 300)) != NULL);
        work(round, 1000);
        for (int i = 0; i < 500; i++) {
            char *at = p[i];
            MUST(at < reserved || at >= reserved + (16ul << 40));
            memset(at, 'm', i * 300);
            free(at);
        }
        if (round == 1) MUST(munmap(reserved, 16ul << 40) == 0);
    }
    for (int i = 0; i < 100000; i++) MUST(mine[i] == 's');
    for (int i = 0; i < 1 << 20; i++) MUST(low[i] == 'l');
    threaded_work(2);
    return 0;
}
