/* The watchdog of each program here: a process of its own, because a thread would change what is
   tested. It starts before main and waits for the end of the program. After BEHAVIOUR_SECONDS, 30
   by default, it prints the stack of every thread in the program's process group and kills the
   group. */
#ifndef WATCHDOG_H
#define WATCHDOG_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The script that prints the stacks; the runner sets the path. */
#ifndef BACKTRACE
#define BACKTRACE ""
#endif
#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif

extern char **environ;
static int watchdog_seconds;

/* Only system calls and no allocation: it runs in a child of the bare clone call. */
static void watchdog_waits(pid_t program) {
    int fd = syscall(SYS_pidfd_open, program, 0);
    struct pollfd ended = {fd, POLLIN, 0};
    if (fd < 0 || poll(&ended, 1, watchdog_seconds * 1000) != 0) return;
    static const char MESSAGE[] = "watchdog: still running, the stacks follow\n";
    if (write(2, MESSAGE, sizeof MESSAGE - 1) < 0) return;
    int kept = 0;
    for (char **at = environ; *at; at++)
        if (strncmp(*at, "LD_PRELOAD=", 11) != 0) environ[kept++] = *at;
    environ[kept] = NULL;
    pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        char group[16];
        snprintf(group, sizeof group, "%d", program);
        char *arguments[] = {(char *)"sh", (char *)BACKTRACE, (char *)"--group", group, NULL};
        execve("/bin/sh", arguments, environ);
        _exit(127);
    }
    syscall(SYS_wait4, child, NULL, 0, NULL);
    kill(-program, SIGKILL);
    kill(program, SIGKILL);
}

__attribute__((constructor(101))) static void watchdog_starts(void) {
    pid_t program = getpid();
    const char *seconds = getenv("BEHAVIOUR_SECONDS");
    watchdog_seconds = seconds ? atoi(seconds) : 30;
    setpgid(0, 0);
    prctl(PR_SET_PTRACER, -1, 0, 0, 0);
    pid_t between = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (between == 0) {
        setsid();
        if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) watchdog_waits(program);
        _exit(0);
    }
    syscall(SYS_wait4, between, NULL, 0, NULL);
}
#endif
