#!/usr/bin/env bash
# What malloc promises: compiles each program here and runs it on glibc, on ashlar in every mode,
# and on other allocators. Ends with a table of which program passes where.
#
#   tests/behaviour/run.sh [--peers] [--library PATH] [--modes LIST] [--also NAME=PATH]...
#                          [--built DIR] [--compile] [--jobs N] [--table FILE] [--list] [NAME...]
#
# --peers          also on the libraries of lab/peers/build.sh and on tcmalloc, where they are there
# --library PATH   instead of the library that cargo builds
# --modes LIST     of those below, separated by commas; the default is all, or "none"
# --also NAME=PATH another library, in a column NAME
# --built DIR      where the compiled programs are, or go to
# --compile        compile only
# --jobs N         programs that run at a time; the default is one for each CPU
# --table FILE     write the table there, too
# --list           print the names and promises, and end
# NAME             only the programs whose name contains one of these
#
# A program ends with 0 (ok), 77 (skipped: the system does not allow it), or with another code and
# one line on standard error. Its watchdog ends it after BEHAVIOUR_SECONDS (30), with all stacks
# ("hang"). What cannot pass in a mode stands in the file `exceptions`, with the reason.
# Exit code: 0 if glibc and ashlar pass everything, 1 if not, 2 for a bad option. Peers do not
# count.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
all_modes=glibc,rseq,lock,nodes,norseq,own,calls,off,slab,slob

# The environment of a mode. "own" is ashlar's own registration of rseq; without it, "norseq", there
# are locks.
settings() {
    case $1 in
    glibc) ;;
    rseq) echo "LD_PRELOAD=$library" ;;
    lock) echo "LD_PRELOAD=$library ASHLAR_OPTIONS=percpu=lock" ;;
    nodes) echo "LD_PRELOAD=$library ASHLAR_OPTIONS=nodes=4" ;;
    norseq) echo "LD_PRELOAD=$library GLIBC_TUNABLES=glibc.pthread.rseq=0" ;;
    own) echo "LD_PRELOAD=$library GLIBC_TUNABLES=glibc.pthread.rseq=0 ASHLAR_OPTIONS=percpu=rseq" ;;
    calls) echo "LD_PRELOAD=$library ASHLAR_OPTIONS=reaper=calls" ;;
    off) echo "LD_PRELOAD=$library ASHLAR_OPTIONS=reaper=off" ;;
    slab | slob) echo "LD_PRELOAD=$library ASHLAR_OPTIONS=engine=$1" ;;
    *) echo "LD_PRELOAD=${others[$1]:-}" ;;
    esac
}

usage() {
    echo "tests/behaviour/run.sh: $1" >&2
    exit 2
}

library= modes=$all_modes peers=no built= compile=no jobs=$(nproc) table= list=no only=()
columns=()
declare -A others=()
while [ $# -gt 0 ]; do
    case $1 in
    --library | --modes | --also | --built | --jobs | --table) [ $# -ge 2 ] || usage "$1: expected a value" ;;
    esac
    case $1 in
    --peers) peers=yes ;;
    --library) library=$(realpath -e "$2") || exit 2; shift ;;
    --modes) modes=$2; shift ;;
    --also) others[${2%%=*}]=$(realpath -e "${2#*=}") || exit 2; columns+=("${2%%=*}"); shift ;;
    --built) built=$2; shift ;;
    --compile) compile=yes ;;
    --jobs) jobs=$2; shift ;;
    --table) table=$2; shift ;;
    --list) list=yes ;;
    -*) usage "$1: no such option" ;;
    *) only+=("$1") ;;
    esac
    shift
done
[ "$modes" = none ] && modes=
IFS=, read -r -a own_modes <<<"$modes"
for mode in ${own_modes[@]+"${own_modes[@]}"}; do
    case ,$all_modes, in *",$mode,"*) ;; *) usage "$mode: expected one of $all_modes" ;; esac
done
if [ $peers = yes ]; then
    for name in mimalloc jemalloc snmalloc rpmalloc tcmalloc; do
        for path in "$target/peers/lib$name.so" /usr/lib/*/libtcmalloc_minimal.so.4; do
            case $path in *"$name"*) [ -e "$path" ] && others[$name]=$path && columns+=("$name") ;; esac
        done
    done
fi
columns=(${own_modes[@]+"${own_modes[@]}"} ${columns[@]+"${columns[@]}"})

sources=()
for source in "$here"/*.c "$here"/*.cc; do
    name=$(basename "${source%.*}")
    wanted=yes
    [ ${#only[@]} = 0 ] || wanted=no
    for part in ${only[@]+"${only[@]}"}; do case $name in *"$part"*) wanted=yes ;; esac done
    [ $wanted = no ] || sources+=("$source")
done
[ ${#sources[@]} -gt 0 ] || usage "no program has such a name"

# The text of the comment that begins a program, in one line.
promise() {
    awk '{ line = line " " $0 } /\*\// { exit } END { print line }' "$1" |
        sed 's/^ *\/\* *//; s/ *\*\/.*$//; s/  */ /g'
}
if [ $list = yes ]; then
    for source in "${sources[@]}"; do echo "$(basename "${source%.*}"): $(promise "$source")"; done
    exit 0
fi

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
built=${built:-$work/built}
mkdir -p "$built" || exit 1
chmod 755 "$work" "$built"

# Compiles one file. A program names in a comment of its own what it needs: flags, a library that it
# is linked with, or one that must lie beside it.
compile() {
    local source=$1 name compiler=${CC:-cc} flags libraries=() part
    name=$(basename "${source%.*}")
    [ "${source##*.}" = cc ] && compiler=${CXX:-c++}
    case $source in
    */lib/*)
        "$compiler" -O1 -w -fno-builtin -pthread -shared -fPIC -Wl,-soname,"$name.so" -o "$built/$name.so.$$" "$source" &&
            mv "$built/$name.so.$$" "$built/$name.so"
        return
        ;;
    esac
    flags=$(sed -n 's/^\/\* flags: \(.*\) \*\/$/\1/p' "$source")
    for part in $(sed -n 's/^\/\* library: \(.*\) \*\/$/\1/p' "$source"); do libraries+=("$built/$part.so"); done
    "$compiler" -O1 -g -w -fno-builtin -pthread -DBACKTRACE="\"$here/backtrace.sh\"" -o "$built/$name.$$" "$source" \
        ${libraries[@]+"${libraries[@]}"} -Wl,-rpath,'$ORIGIN' -ldl $flags && mv "$built/$name.$$" "$built/$name"
}
export -f compile
export built here
newer=$(find "$here" -name '*.h' -newer "$built/.done" 2>/dev/null)
for source in "$here"/lib/*.c "${sources[@]}"; do
    name=$(basename "${source%.*}")
    case $source in */lib/*) name=$name.so ;; esac
    [ -e "$built/.done" ] && [ -z "$newer" ] && [ "$built/$name" -nt "$source" ] || echo "$source"
done >"$work/stale"
if ! grep /lib/ "$work/stale" | xargs -r -P "$jobs" -I{} bash -c 'compile {}' ||
    ! grep -v /lib/ "$work/stale" | xargs -r -P "$jobs" -I{} bash -c 'compile {}'; then
    echo "tests/behaviour/run.sh: a program does not compile" >&2
    exit 1
fi
touch "$built/.done"
[ $compile = no ] || exit 0

if [ -z "$library" ]; then
    (cd "$root" && cargo build --release -q -p ashlar-malloc) || exit 1
    library=$target/release/libashlar_malloc.so
fi

# One program in one mode; its result is a word in a file.
run() {
    local mode=$1 name=$2 code word
    shift 2
    env -u LD_PRELOAD -u ASHLAR_OPTIONS -u GLIBC_TUNABLES "$@" timeout -k 5 $((${BEHAVIOUR_SECONDS:-30} + 60)) "$built/$name" \
        </dev/null >"$work/$mode.$name.out" 2>"$work/$mode.$name.err"
    code=$?
    case $code in
    0) word=ok ;;
    77) word=skip ;;
    *) word=FAIL ;;
    esac
    if [ $word = FAIL ]; then
        grep -q '^watchdog: still running' "$work/$mode.$name.err" && word=hang
        [ $code -le 128 ] || [ $word = hang ] || word="SIG$(kill -l $((code - 128)))"
    fi
    echo "$word" >"$work/$mode.$name.word"
}
export -f run
export work
# `timeout` runs on the library, too, in the same way as the program.
for mode in ${columns[@]+"${columns[@]}"}; do
    for source in "${sources[@]}"; do
        printf 'run %s %s %s\n' "$mode" "$(basename "${source%.*}")" "$(settings "$mode")"
    done
done | xargs -P "$jobs" -d '\n' -I{} bash -c '{ {}; } 2>/dev/null'

excepted() {
    local pattern="^$1 +$2( |\$)"
    [ "$1" = glibc ] || [ -n "${others[$1]:-}" ] || pattern="^($1|\\*) +$2( |\$)"
    sed 's/#.*//' "$here/exceptions" | grep -qE "$pattern"
}

failed=0 passed=0 skipped=0
{
    printf '| program |'; printf ' %s |' "${columns[@]}"; echo
    printf '|---|'; printf '%s' "${columns[@]/*/---|}"; echo
    for source in "${sources[@]}"; do
        name=$(basename "${source%.*}")
        printf '| %s |' "$name"
        for mode in "${columns[@]}"; do
            word=$(cat "$work/$mode.$name.word" 2>/dev/null || echo FAIL)
            case $word in ok | skip) ;; *) excepted "$mode" "$name" && word="($word)" ;; esac
            printf ' %s |' "$word"
        done
        echo
    done
} >"$work/table"
for mode in "${columns[@]}"; do
    for source in "${sources[@]}"; do
        name=$(basename "${source%.*}")
        word=$(cat "$work/$mode.$name.word" 2>/dev/null || echo FAIL)
        case $word in
        ok) passed=$((passed + 1)); continue ;;
        skip) skipped=$((skipped + 1)); echo "SKIPPED $name on $mode: $(head -n 1 "$work/$mode.$name.err")"; continue ;;
        esac
        excepted "$mode" "$name" && echo "EXCEPTED $name on $mode: see tests/behaviour/exceptions" && continue
        if [ -n "${others[$mode]:-}" ]; then
            echo "failed  $name on $mode: $word: $(grep -av '^$' "$work/$mode.$name.err" | head -n 1 | cut -c -200)"
            continue
        fi
        failed=$((failed + 1))
        echo "FAILED  $name on $mode: $word: $(head -n 40 "$work/$mode.$name.err")"
    done
done
echo
cat "$work/table"
[ -z "$table" ] || cp "$work/table" "$table"
echo
echo "behaviour: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
