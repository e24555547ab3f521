#!/bin/sh
# Prints the stacks of all threads of processes that hang, on standard error.
#
#   backtrace.sh --group PGID       the processes of a process group
#   backtrace.sh --environ TEXT     the processes whose environment has this text
#   backtrace.sh --pids KIND WHAT   prints the process ids instead; KIND is --group or --environ
#
# With gdb these are the program's stacks, without it what the kernel says of each thread.
list=no
[ "$1" = --pids ] && list=yes && shift
kind=$1 what=$2
# Processes end while this reads of them.
exec 3>&2 2>/dev/null
unset LD_PRELOAD ASHLAR_OPTIONS GLIBC_TUNABLES LD_DEBUG LD_DEBUG_OUTPUT

for dir in /proc/[0-9]*; do
    pid=${dir#/proc/}
    [ "$pid" = $$ ] && continue
    case $kind in
    --group) [ "$(sed 's/.*) //' "$dir/stat" 2>/dev/null | cut -d' ' -f3)" = "$what" ] || continue ;;
    --environ) tr '\0' '\n' 2>/dev/null <"$dir/environ" | grep -qF "$what" || continue ;;
    *) exit 2 ;;
    esac
    if [ $list = yes ]; then
        echo "$pid"
        continue
    fi
    {
        echo "process $pid: $(tr '\0' ' ' <"$dir/cmdline")"
        if command -v gdb >/dev/null 2>&1; then
            timeout 60 gdb -nx -batch -p "$pid" -ex 'set pagination off' -ex 'thread apply all bt 24' 2>/dev/null |
                grep -E '^(#|Thread )'
        else
            for task in "$dir"/task/*; do
                echo "thread ${task##*/}: $(cat "$task/wchan" 2>/dev/null) $(cat "$task/syscall" 2>/dev/null)"
                cat "$task/stack" 2>/dev/null
            done
        fi
    } >&3
done
