/* Promise: after a change of credentials no thread of the process keeps the old ones. */
#include "behaviour.h"
#include <dirent.h>
#include <linux/capability.h>

/* True if the line of every thread's status that begins with `key` is the same as the first's. */
static int the_same(const char *key, const char *value) {
    DIR *tasks = opendir("/proc/self/task");
    MUST(tasks != NULL);
    struct dirent *task;
    while ((task = readdir(tasks)) != NULL) {
        if (task->d_name[0] == '.') continue;
        char path[300], line[300];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL) continue;
        while (fgets(line, sizeof line, file))
            if (strncmp(line, key, strlen(key)) == 0 && strstr(line, value) == NULL) return 0;
        fclose(file);
    }
    closedir(tasks);
    return 1;
}
int main(void) {
    free(malloc(8 << 20));
    work(1, 3000);
    sleep_ms(50);
    /* By the bare call, which is for the calling thread alone: a program with one thread. */
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    MUST(the_same("NoNewPrivs:", "\t1"));
    pid_t pid = fork();
    if (pid == 0) {
        struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
        struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};
        free(malloc(8 << 20));
        MUST(syscall(SYS_capset, &header, none) == 0);
        MUST(the_same("CapEff:", "\t0000000000000000"));
        _exit(7);
    }
    MUST(child_ended(pid, 7));
    if (geteuid() != 0) return 0;
    /* By the C library's call, which is for all threads. */
    crowd_begins(3);
    free(malloc(8 << 20));
    MUST(setresuid(47110, 47110, 47110) == 0);
    MUST(the_same("Uid:", "47110\t47110\t47110\t47110"));
    crowd_ends();
    return 0;
}
