#!/usr/bin/env bash
# Real programs on ashlar: each runs without it, with it by rseq, and with it by locks; output and exit code must be equal.
#
#   ci/programs.sh [--no-install] [--quick] [NAME...]
#
# --no-install  do not install missing programs (the default is to, from Debian, as root where apt-get exists)
# --quick       only what is there already and takes seconds
# NAME          only the programs whose name contains one of these
#
# That the library was loaded is read from the dynamic linker's own log of every process (LD_DEBUG=files), which
# must show that the program named by `-p` initialised it. What is not installed is skipped, and said so.
# Ends with a table and `N passed, M failed, K skipped`; exit code 0 exactly if none failed, 2 for a bad option.
set -u
cd "$(dirname "$0")/.." || exit 1

install=no quick=no only=()
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && install=yes
while [ $# -gt 0 ]; do
    case $1 in
    --install) install=yes ;;
    --no-install) install=no ;;
    --quick) quick=yes install=no ;;
    -*) echo "ci/programs.sh: $1: expected --install, --no-install or --quick" >&2; exit 2 ;;
    *) only+=("$1") ;;
    esac
    shift
done

# Debian's packages, one by one: a big one that cannot be had costs its own program only.
packages() {
    local name apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq)
    "${apt[@]}" update >/dev/null || echo "LOUD: apt-get update failed" >&2
    while read -r name tool; do
        command -v "$tool" >/dev/null 2>&1 || ls $tool >/dev/null 2>&1 && continue
        "${apt[@]}" install -y --no-install-recommends "$name" >/dev/null 2>&1 || echo "NOT INSTALLED: $name failed to install" >&2
    done <<'LIST'
git git
perl perl
openssl openssl
nodejs node
sqlite3 sqlite3
lua5.4 lua
ruby ruby
z3 z3
ghostscript gs
redis-server redis-server
redis-tools redis-benchmark
postgresql /usr/lib/postgresql/*/bin/postgres
default-jdk-headless javac
chromium chromium
python3 python3
LIST
    # The interpreter's own tests are a package for each version.
    name=$(/usr/bin/python3 -c 'import sys; print("libpython%d.%d-testsuite" % sys.version_info[:2])') &&
        { /usr/bin/python3 -c 'import test.test_json' 2>/dev/null || "${apt[@]}" install -y "$name" >/dev/null 2>&1; } ||
        echo "NOT INSTALLED: python3's own tests" >&2
}
[ $install = yes ] && packages

cargo build --release -q -p ashlar-cli -p ashlar-malloc --no-default-features || exit 1
pieces=$PWD/ci/programs
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
# Copies, in a place that any user may read: postgres does not run as root.
chmod 755 "$dir"
cp "${CARGO_TARGET_DIR:-target}"/release/{ashlar,libashlar_malloc.so} "$dir" && cp -r "$pieces" "$dir/programs" || exit 1
chmod -R a+rX "$dir"
pieces=$dir/programs
: >"$dir/in"

passed=0 failed=0 skipped=0 table=()

# What the mode is that a process really gets when it is asked for `auto`.
auto=$("$dir/ashlar" run --stats=json -- true 2>&1 | sed -n 's/.*"mode":"\([a-z]*\)".*/\1/p')
echo "percpu=auto is ${auto:-nothing} here"
[ -n "$auto" ] || { echo "FAILED: a trivial program prints no figures" >&2; exit 1; }

# One run of "$@" by mode $mode into $dir/$mode.{out,err,code,log/*}; takes at most $limit seconds.
run() {
    local log=$dir/$mode.log prefix=()
    rm -rf "$log" && mkdir -m 777 "$log"
    [ "$mode" = plain ] || prefix=("$dir/ashlar" run --option "percpu=$mode" --)
    # The log is a file of its own for each process. The plain run has it too, as it costs a file descriptor.
    LD_DEBUG=files LD_DEBUG_OUTPUT=$log/ld timeout -k 10 "$limit" "${prefix[@]}" "$@" \
        <"$dir/in" >"$dir/$mode.out" 2>"$dir/$mode.err"
    echo $? >"$dir/$mode.code"
}

# True if a process whose argv[0] ends in $1 loaded and initialised the library.
loaded() {
    local file
    for file in $(grep -rlE "initialize program: (.*/)?${1//+/\\+}\$" "$dir/$mode.log"); do
        grep -q "calling init: .*/libashlar_malloc.so" "$file" && return 0
    done
    return 1
}

# check [-s] [-l SECONDS] [-n PROGRAM] [-p PROCESSES] [-i INPUT] NAME PROGRAM ARGS...
# -s: not with --quick. -l: time limit. -n: programs that must be there too. -p: the processes that must load the library,
# if not PROGRAM.
check() {
    local slow=no limit=300 process= needs= input=/dev/null OPTIND option name want row file wanted=no
    while getopts sl:n:p:i: option; do
        case $option in s) slow=yes ;; l) limit=$OPTARG ;; n) needs=$OPTARG ;; p) process=$OPTARG ;; i) input=$OPTARG ;; *) exit 2 ;; esac
    done
    shift $((OPTIND - 1))
    name=$1
    shift
    for want in "${only[@]}"; do case $name in *"$want"*) wanted=yes ;; esac done
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
    mode=plain run "$@"
    want=$(cat "$dir/plain.code")
    if [ "$want" != 0 ]; then
        skip "$name" "exit code $want without ashlar too"
        return
    fi
    row=$(printf '%-34s' "$name")
    for mode in auto lock; do
        local start=$EPOCHREALTIME why=
        run "$@"
        [ "$(cat "$dir/$mode.code")" = "$want" ] || why="exit code $(cat "$dir/$mode.code"), expected $want"
        cmp -s "$dir/plain.out" "$dir/$mode.out" || why="$why; output differs"
        cmp -s "$dir/plain.err" "$dir/$mode.err" || why="$why; standard error differs"
        for file in $process; do loaded "$file" || why="$why; $file did not load the library"; done
        if [ -z "$why" ]; then
            passed=$((passed + 1))
            row+=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "  ok %6.1f s", b - a }')
        else
            failed=$((failed + 1))
            row+='  FAILED     '
            echo "FAILED   $name ($mode): ${why#; }"
            diff "$dir/plain.out" "$dir/$mode.out" | head -n 8
            diff "$dir/plain.err" "$dir/$mode.err" | head -n 8
        fi
    done
    table+=("$row")
    echo "$row"
}

skip() {
    echo "SKIPPED  $1: $2"
    table+=("$(printf '%-34s  skipped: %s' "$1" "$2")")
    skipped=$((skipped + 2))
}

# A long C file, of which nothing can be left out, for the compilers.
{
    echo '#include <stdio.h>'
    for ((i = 0; i < 2000; i++)); do
        echo "int f$i(int x) { for (int i = 0; i < x; i++) x += i * $i ^ x; return x; }"
    done
    echo 'int main(void) { printf("%d\n", f1(10) + f1999(20)); return 0; }'
} >"$dir/long.c"
cat >"$dir/long.cc" <<'CC'
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <vector>
int main() { std::map<std::string, std::vector<std::regex>> m; m["a"].emplace_back("a*"); std::cout << m.size(); }
CC

export PYTHONMALLOC=malloc PYTHONHASHSEED=0
py=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null || echo python3)

check ls ls -lR /usr/include/linux
check "python3" "$py" "$pieces/work.py"
# The interpreter's own tests, where there is one that has them. Which of them fail is compared, not the time they took.
for module in json sqlite3 threading subprocess multiprocessing_fork multiprocessing_spawn multiprocessing_forkserver; do
    for tester in /usr/bin/python3 "$py" none; do
        [ "$tester" = none ] || "$tester" -c "import test.test_$module" >/dev/null 2>&1 && break
    done
    check -s -l 900 -n "$tester" -p "$(basename "$tester")" "python3: test_$module" sh -c \
        "cd '$dir' && $tester -m test test_$module 2>&1 | grep -E '^(Tests result|Result|FAIL|ERROR)' | sort -u"
done
check -p 'gcc cc1' "gcc, output as assembly" gcc -O2 -S -o - "$dir/long.c"
check -p 'g++ cc1plus' g++ g++ -x c++ -O1 -S -o - "$dir/long.cc"
check git git log --stat -p -n 20
check perl perl "$pieces/work.pl"
check node node "$pieces/work.js"
check lua lua "$pieces/work.lua"
check ruby ruby "$pieces/work.rb"
check "sort, several threads" sort -R --random-source=/dev/zero --parallel=4 "$dir/long.c"
check "tar and gzip" tar czf - -C / usr/include/linux --sort=name
check openssl openssl dgst -sha256 "$dir/long.c"
check -i "$pieces/work.sql" sqlite3 sqlite3 :memory:
check z3 z3 "$pieces/work.smt2"
check ghostscript gs -q -dNOPAUSE -dBATCH -dSAFER -sDEVICE=ppmraw -r100 -sOutputFile=- "$pieces/work.ps"
check -s -n 'redis-server redis-benchmark' -p 'redis-server redis-benchmark redis-cli' redis "$pieces/redis.sh"
check -s -n 'postgres setpriv' -p 'postgres pgbench psql initdb' "postgres, pgbench" "$pieces/postgres.sh"
check -s -n javac -p 'javac java' java "$pieces/java.sh" "$pieces/Work.java"
check -s -n chromium -p chromium "chromium, headless" "$pieces/chromium.sh" "$pieces/page.html"

printf '\n%-34s  %-11s  %s\n' program "auto: $auto" lock
printf '%s\n' "${table[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
