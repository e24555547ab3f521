# How ci/programs.sh runs a program: without the library, then with it in each mode; what must be
# equal. shellcheck shell=bash

passed=0 failed=0 skipped=0 table=() runs=0

# What the mode is that a process really gets when it is asked for `auto`.
mode_of() { "$@" "$dir/ashlar" run --stats=json -- true 2>&1 | sed -n 's/.*"mode":"\([a-z]*\)".*/\1/p'; }

# Sets `prefix` to what runs a program in mode $1.
set_prefix() {
    case $1 in
    plain) prefix=(env) ;;
    bare) prefix=(env GLIBC_TUNABLES=glibc.pthread.rseq=0) ;;
    auto) prefix=("$dir/ashlar" run --) ;;
    lock) prefix=("$dir/ashlar" run --option percpu=lock --) ;;
    nodes) prefix=("$dir/ashlar" run --option nodes=4 --) ;;
    norseq) prefix=(env GLIBC_TUNABLES=glibc.pthread.rseq=0 "$dir/ashlar" run --) ;;
    own) prefix=(env GLIBC_TUNABLES=glibc.pthread.rseq=0 "$dir/ashlar" run --option percpu=rseq --) ;;
    esac
}

# Waits for the limit; then prints all stacks of the processes with this mark, and kills them. TERM
# ends it.
watch_over() {
    local mark=$1 sleeping
    trap 'kill "$sleeping" 2>/dev/null; exit 0' TERM
    sleep "$limit" &
    sleeping=$!
    wait "$sleeping"
    echo "hung: still running after $limit s" >"$dir/$mode.hang"
    "$pieces/backtrace.sh" --environ "$mark" 2>>"$dir/$mode.hang" >&2
    end_all "$mark"
}

# Kills the processes with this mark in their environment.
end_all() {
    local pids
    pids=$("$pieces/backtrace.sh" --pids --environ "$1")
    # shellcheck disable=SC2086 # a list
    [ -z "$pids" ] || kill -KILL $pids 2>/dev/null
}

# One run of "$@" by mode $mode into $dir/$mode.{out,err,code,hang,log/*}; takes at most $limit
# seconds.
run() {
    local log=$dir/$mode.log prefix mark watcher
    runs=$((runs + 1))
    mark=PROGRAMS_RUN=$$.$runs.
    rm -rf "$log" "$dir/$mode.hang" && mkdir -m 777 "$log"
    set_prefix "$mode"
    # The log is a file of its own for each process. The plain run has it too, as it costs a file
    # descriptor.
    env "$mark" LD_DEBUG=files LD_DEBUG_OUTPUT="$log/ld" "${prefix[@]}" "$@" \
        <"$dir/in" >"$dir/$mode.out" 2>"$dir/$mode.err" &
    local program=$!
    watch_over "$mark" </dev/null >/dev/null 2>&1 &
    watcher=$!
    wait "$program" 2>/dev/null
    echo $? >"$dir/$mode.code"
    if [ -e "$dir/$mode.hang" ]; then
        wait "$watcher" 2>/dev/null
    else
        kill "$watcher" 2>/dev/null
        wait "$watcher" 2>/dev/null
    fi
    [ "$(cat "$dir/$mode.code")" = 0 ] || end_all "$mark"
}

# True if a process whose argv[0] ends in $1 loaded and initialised the library.
loaded() {
    local file
    for file in $(grep -rlE "initialize program: (.*/)?${1//+/\\+}\$" "$dir/$mode.log"); do
        grep -q "calling init: .*/libashlar_malloc.so" "$file" && return 0
    done
    return 1
}

# Sets `why` to what differs between the runs in `mode` and `like`, for the `process` of a check.
judge() {
    local code file
    why=
    code=$(cat "$dir/$mode.code")
    [ "$code" = "$want" ] || why="exit code $code, expected $want"
    [ ! -e "$dir/$mode.hang" ] || why="hung"
    cmp -s "$dir/$like.out" "$dir/$mode.out" || why="$why; output differs"
    cmp -s "$dir/$like.err" "$dir/$mode.err" || why="$why; standard error differs"
    for file in $process; do loaded "$file" || why="$why; $file did not load the library"; done
}

# check [-s] [-l SECONDS] [-n PROGRAM] [-p PROCESSES] [-i INPUT] NAME PROGRAM ARGS...
# -s: not with --quick. -l: time limit. -n: programs that must be there too. -p: the processes that
# must load the library, if not PROGRAM.
check() {
    local slow=no limit=300 process='' needs='' input=/dev/null OPTIND option name want row file wanted=no
    while getopts sl:n:p:i: option; do
        case $option in s) slow=yes ;; l) limit=$OPTARG ;; n) needs=$OPTARG ;; p) process=$OPTARG ;; i) input=$OPTARG ;; *) exit 2 ;; esac
    done
    shift $((OPTIND - 1))
    name=$1
    shift
    for want in ${only[@]+"${only[@]}"}; do case $name in *"$want"*) wanted=yes ;; esac done
    [ ${#only[@]} = 0 ] || [ $wanted = yes ] || return 0
    [ $quick = no ] || [ $slow = no ] || return 0
    process=${process:-$(basename "$1")}
    for file in "$1" $needs; do
        if ! command -v "$file" >/dev/null 2>&1 && ! ls /usr/lib/postgresql/*/bin/"$file" >/dev/null 2>&1; then
            skip "$name" "no $file"
            return
        fi
    done
    cp "$input" "$dir/in"
    mode=plain
    run "$@"
    want=$(cat "$dir/plain.code")
    if [ "$want" != 0 ]; then
        skip "$name" "exit code $want without ashlar too"
        tail -n 5 "$dir/plain.out" "$dir/plain.err"
        return
    fi
    row=$(printf '%-34s' "$name")
    for mode in "${modes[@]}"; do
        local start=$EPOCHREALTIME why= like=plain
        run "$@"
        judge
        # What it prints may depend on the tunable itself: then this is compared.
        if [ -n "$why" ] && [[ $mode = norseq || $mode = own ]]; then
            local judged=$mode
            mode=bare
            run "$@"
            mode=$judged like=bare
            judge
        fi
        if [ -z "$why" ]; then
            passed=$((passed + 1))
            count "$mode" ok
            row+=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "  ok %6.1f s", b - a }')
        else
            failed=$((failed + 1))
            count "$mode" failed
            row+='  FAILED     '
            echo "FAILED   $name ($mode): ${why#; }"
            [ ! -e "$dir/$mode.hang" ] || head -n 80 "$dir/$mode.hang"
            diff "$dir/$like.out" "$dir/$mode.out" | head -n 8
            diff "$dir/$like.err" "$dir/$mode.err" | head -n 8
        fi
    done
    table+=("$row")
    echo "$row"
}

declare -A counts=()
count() { counts[$1.$2]=$((${counts[$1.$2]:-0} + 1)); }

skip() {
    local mode
    echo "SKIPPED  $1: $2"
    table+=("$(printf '%-34s  skipped: %s' "$1" "$2")")
    skipped=$((skipped + ${#modes[@]}))
    for mode in "${modes[@]}"; do count "$mode" skipped; done
}
