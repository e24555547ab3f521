/* 1000 forks (and 200 posix_spawns) while 8 threads allocate: each child allocates, frees and
   exits. Handlers of the program's own allocate too. Prints "well". */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;
extern char **environ;

static void *allocate(void *seed) {
    unsigned long x = (unsigned long)seed * 2654435761u + 1;
    void *kept[64] = {0};
    while (!stop) {
        x = x * 6364136223846793005ul + 1442695040888963407ul;
        int at = x >> 58;
        free(kept[at]);
        kept[at] = malloc((x >> 33) % ((x >> 20) % 64 == 0 ? 200000 : 2000));
    }
    for (int i = 0; i < 64; i++) free(kept[i]);
    return NULL;
}

static void handler(void) { free(malloc(500)); }

int main(void) {
    pthread_t threads[8];
    pthread_atfork(handler, handler, handler);
    for (long i = 0; i < 8; i++) pthread_create(&threads[i], NULL, allocate, (void *)i);
    for (int i = 0; i < 1000; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            void *kept[200];
            for (int k = 0; k < 200; k++) kept[k] = memset(malloc(k * 50 + 1), 1, k * 50 + 1);
            for (int k = 0; k < 200; k++) free(kept[k]);
            if (i % 10 == 0) exit(7);
            _exit(7);
        }
        int status;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 7) {
            fprintf(stderr, "fork %d: status %x\n", i, status);
            return 1;
        }
    }
    for (int i = 0; i < 200; i++) {
        pid_t pid;
        int status;
        char *args[] = {"true", NULL};
        if (posix_spawnp(&pid, "true", NULL, NULL, args, environ) != 0 || waitpid(pid, &status, 0) != pid || status != 0) {
            fprintf(stderr, "spawn %d: status %x\n", i, status);
            return 1;
        }
    }
    stop = 1;
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    puts("well");
    return 0;
}
