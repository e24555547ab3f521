#!/usr/bin/env bash
# Programs on ashlar while calls of the system fail: mmap, madvise, mprotect, mremap, membarrier,
# threads, at limits of memory, and allocations themselves. Counts the calls that failed, and checks
# that nothing was lost.
#
#   ci/faults.sh [--library PATH] [--every N] [--quick]
#
# --library PATH  instead of the library that cargo builds
# --every N       in "each call in turn", only each N-th call fails by itself; the default is 1
# --quick         fewer operations, and --every 10
#
# The program `owners` knows the owner of each object and what it wrote; a report of the allocator
# ends it, and so does an object that is not as its owner left it. Real programs must print what
# they print without failures. strace makes calls fail; without it those rows are skipped.
# Ends with `N passed, M failed, K skipped`; exit code 0 exactly if none failed, 2 for a bad option.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
target=${CARGO_TARGET_DIR:-$root/target}
library='' every=1 operations=30000
usage() {
    echo "ci/faults.sh: $1" >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
    --library | --every)
        [ $# -ge 2 ] || usage "$1: expected a value"
        [ "$1" = --library ] && library=$2 || every=$2
        shift
        ;;
    --quick) every=10 operations=5000 ;;
    *) usage "$1: expected --library, --every or --quick" ;;
    esac
    shift
done
[[ $every =~ ^[1-9][0-9]*$ ]] || usage "--every: $every: expected a number of calls"
if [ -z "$library" ]; then
    (cd "$root" && cargo build --quiet --release -p ashlar-malloc) || exit 1
    library=$target/release/libashlar_malloc.so
fi
[ -f "$library" ] || usage "--library: $library: no such file"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cc -O2 -o "$scratch/owners" "$here/faults/owners.c" -lpthread || exit 1
owners=$scratch/owners
passed=0 failed=0 skipped=0 calls=0
trace=$(command -v strace || true)
if [ -n "$trace" ] && ! strace -o /dev/null true 2>/dev/null; then trace=''; fi

row() {
    printf '%-58s %8s  %s\n' "$1" "$2" "$3"
}
pass() {
    passed=$((passed + 1)) calls=$((calls + $2))
    row "$1" "$2" "$3"
}
fail() {
    failed=$((failed + 1))
    row "$1" "$2" "FAILED: $3"
}
skip() {
    skipped=$((skipped + 1))
    row "$1" - "SKIPPED: $2"
}

# judge TITLE CALLS CODE: the last run of `owners` must have ended well, and said nothing more.
judge() {
    local said
    said=$(head -c 300 "$scratch/out" | tr '\n' ' ')
    if [ "$3" = 0 ] && [ ! -s "$scratch/err" ] && grep -q ' refused' "$scratch/out"; then
        pass "$1" "$2" "$said"
    else
        fail "$1" "$2" "exit code $3, $said$(head -c 500 "$scratch/err" | tr '\n' ' ')"
    fi
}

# run_owners TITLE THREADS [NAME=VALUE...]: fails allocations by the environment or by limits.
run_owners() {
    local title=$1 threads=$2 code
    shift 2
    env "$@" LD_PRELOAD="$library" timeout 300 "$owners" "$threads" "$operations" \
        >"$scratch/out" 2>"$scratch/err"
    code=$?
    judge "$title" "$(sed -n 's/.* \([0-9]*\) refused.*/\1/p' "$scratch/out")" $code
}

# inject TITLE CALLS ERROR WHEN THREADS [NAME=VALUE...]: has calls of the system fail.
inject() {
    local title=$1 which=$2 error=$3 when=$4 threads=$5 code
    shift 5
    if [ -z "$trace" ]; then
        skip "$title" "no strace that works"
        return
    fi
    local given=()
    for setting in "$@"; do given+=(-E "$setting"); done
    timeout 600 strace -f -qqq -o "$scratch/trace" -e trace="$which" -e inject="$which:error=$error:when=$when" \
        "${given[@]}" -E LD_PRELOAD="$library" "$owners" "$threads" "$operations" >"$scratch/out" 2>"$scratch/err"
    code=$?
    if grep -q INJECTED "$scratch/trace"; then
        judge "$title" "$(grep -c INJECTED "$scratch/trace")" $code
    else
        skip "$title" "no such call was made"
    fi
}

# The number of the first mmap that is not the loader's: it has mapped all libraries when it tells
# the system where the number of the thread lies.
first=1
if [ -n "$trace" ]; then
    strace -qqq -o "$scratch/trace" -e trace=mmap,set_tid_address -E LD_PRELOAD="$library" "$owners" 1 10 >/dev/null
    first=$(awk '/set_tid_address/ { exit } /mmap\(/ { count++ } END { print count + 1 }' "$scratch/trace")
fi

row 'what fails' 'failures' 'of `owners`'
for mode in '' percpu=lock nodes=4 engine=slab; do
    options="ASHLAR_OPTIONS=$mode" name=${mode:-default}
    run_owners "allocations, 1 of 5, $name" 4 "$options" 'ASHLAR_DEBUG=A,malloc-*' ASHLAR_FAILSLAB=5,100,65536,-1
    inject "mmap, each third, $name" mmap ENOMEM "$((first + 8))+3" 4 "$options"
    inject "madvise, each second, $name" madvise ENOMEM 1+2 4 "$options"
    inject "mremap, each second, $name" mremap ENOMEM 1+2 4 "$options"
    inject "membarrier, each second, $name" membarrier EPERM 1+2 4 "$options"
    inject "mprotect of guarded objects, each second, $name" mprotect ENOMEM 30+2 1 "$options,guard=100"
    inject "threads, each second, $name" clone,clone3 EAGAIN 2+2 6 "$options"
done
for limit in 15000 20000 40000 60000; do
    (ulimit -v $limit && env LD_PRELOAD="$library" timeout 300 "$owners" 1 "$operations") \
        >"$scratch/out" 2>"$scratch/err"
    code=$?
    judge "addresses, ulimit -v $limit" "$(sed -n 's/.* \([0-9]*\) refused.*/\1/p' "$scratch/out")" $code
done
run_owners 'allocations, 1 of 5, with all checks' 4 ASHLAR_OPTIONS=on_error=abort \
    'ASHLAR_DEBUG=FZPA' ASHLAR_FAILSLAB=5,100,65536,-1

# Each call in turn fails by itself, up to the last one of the program. Without a mprotect that the
# loader needs the program does not begin.
for which in mmap madvise mremap mprotect membarrier; do
    title="$which, each call in turn"
    if [ -z "$trace" ]; then
        skip "$title" "no strace that works"
        continue
    fi
    number=1 count=0 not_begun=0 bad=''
    [ $which != mmap ] || number=$first
    while :; do
        timeout 60 strace -f -qqq -o "$scratch/trace" -e trace="$which" \
            -e inject="$which:error=ENOMEM:when=$number" -E LD_PRELOAD="$library" \
            "$owners" 1 2000 >"$scratch/out" 2>"$scratch/err"
        code=$?
        grep -q INJECTED "$scratch/trace" || break
        count=$((count + 1))
        if grep -q 'error while loading shared libraries\|cannot be preloaded' "$scratch/err"; then
            not_begun=$((not_begun + 1))
        elif [ $code != 0 ] || [ -s "$scratch/err" ]; then
            bad="call $number: exit code $code, $(head -c 300 "$scratch/err" | tr '\n' ' ')"
            break
        fi
        number=$((number + every))
    done
    if [ -n "$bad" ]; then
        fail "$title" $count "$bad"
    elif [ $count = 0 ]; then
        skip "$title" "no such call was made"
    else
        pass "$title" $count "$count runs, of which the loader ended $not_begun"
    fi
done

# Real programs print the same as without failures.
cat >"$scratch/work.py" <<'END'
import json, zlib, re, threading
def work(seed):
    table = {("key%d" % (i * seed)): list(range(i % 50)) for i in range(4000)}
    text = json.dumps(table, sort_keys=True)
    return len(text), zlib.crc32(zlib.compress(text.encode())), len(re.findall(r"\d+", text))
results = [None] * 4
def run(at): results[at] = work(at + 1)
threads = [threading.Thread(target=run, args=(at,)) for at in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(results)
END
seq 1 60000 >"$scratch/numbers"
program() {
    local name=$1 plain code
    shift
    if ! command -v "$1" >/dev/null; then
        skip "$name" "not installed"
        return
    fi
    if [ -z "$trace" ]; then
        skip "$name" "no strace that works"
        return
    fi
    plain=$("$@" 2>&1 </dev/null)
    timeout 600 strace -f -qqq -o "$scratch/trace" -e trace=madvise,mremap,membarrier,mbind,sched_setaffinity \
        -e inject=madvise,mremap,membarrier,mbind,sched_setaffinity:error=ENOMEM:when=1+2 \
        env LD_PRELOAD="$library" "$@" >"$scratch/out" 2>&1 </dev/null
    code=$?
    if [ $code = 0 ] && [ "$plain" = "$(cat "$scratch/out")" ]; then
        pass "$name, advice and barriers fail" "$(grep -c INJECTED "$scratch/trace")" 'same output'
    else
        fail "$name, advice and barriers fail" "$(grep -c INJECTED "$scratch/trace")" "exit code $code, $(head -c 200 "$scratch/out")"
    fi
}
program sort sort -rn "$scratch/numbers"
program python3 env PYTHONMALLOC=malloc "$(command -v /usr/bin/python3 || echo python3)" "$scratch/work.py"
program perl perl -e 'my %h; $h{$_ % 5000} .= "x$_" for 1..200000; print length(join ",", map {"$_$h{$_}"} sort keys %h), "\n"'
program sqlite3 sqlite3 :memory: 'create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<20000) insert into t select x, hex(x*x) from c; create index i on t(b); select count(*), max(b) from t;'

echo "$calls calls failed; $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
