/* Promise: popen, system and posix_spawn at the same time, beside fork handlers that allocate. */
#include "behaviour.h"
#include <spawn.h>

static void allocates(void) {
    free(malloc(100));
    free(malloc(3 << 20));
}
static void *pipes(void *unused) {
    for (int i = 0; i < 12; i++) {
        FILE *file = popen("echo hello", "r");
        char line[20] = "";
        MUST(file && fgets(line, sizeof line, file) && strcmp(line, "hello\n") == 0);
        MUST(pclose(file) == 0);
    }
    return unused;
}
static void *systems(void *unused) {
    for (int i = 0; i < 12; i++) MUST(WEXITSTATUS(system("exit 3")) == 3);
    return unused;
}
static void *spawns(void *unused) {
    for (int i = 0; i < 12; i++) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        char *arguments[] = {"sh", "-c", "echo x; exit 4", NULL};
        pid_t pid;
        MUST(posix_spawnp(&pid, "sh", &actions, NULL, arguments, environ) == 0);
        MUST(child_ended(pid, 4));
        posix_spawn_file_actions_destroy(&actions);
    }
    return unused;
}
static void *forks(void *unused) {
    for (int i = 0; i < 12; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            work(i, 50);
            _exit(7);
        }
        MUST(pid > 0 && child_ended(pid, 7));
    }
    return unused;
}
int main(void) {
    unsetenv("LD_PRELOAD");
    MUST(pthread_atfork(allocates, allocates, allocates) == 0);
    crowd_begins(1);
    pthread_t t[4];
    void *(*runs[4])(void *) = {pipes, systems, spawns, forks};
    for (int i = 0; i < 4; i++) MUST(pthread_create(&t[i], NULL, runs[i], NULL) == 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    crowd_ends();
    return 0;
}
