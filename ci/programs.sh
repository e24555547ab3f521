#!/bin/sh
# Real programs on ashlar: each runs without and with it, by rseq and by locks; output and exit code must be equal.
# Programs that are not installed are skipped, and said so. Exit code: 0 all equal, 1 some differ.
set -u
cd "$(dirname "$0")/.."
cargo build --release -q -p ashlar-cli -p ashlar-malloc --no-default-features || exit 1
ashlar="${CARGO_TARGET_DIR:-target}/release/ashlar"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
ran=0 failed=0 skipped=0

# check NAME PROGRAM ARGS...: NAME for the report, the rest is run with standard input from $dir/in.
: >"$dir/in"
check() {
    name=$1
    shift
    if ! command -v "$1" >/dev/null 2>&1; then
        echo "SKIPPED  $name: no $1"
        skipped=$((skipped + 1))
        return
    fi
    "$@" <"$dir/in" >"$dir/want" 2>"$dir/want.err"
    want=$?
    if [ "$want" != 0 ]; then
        echo "SKIPPED  $name: exit code $want without ashlar too"
        skipped=$((skipped + 1))
        return
    fi
    for mode in auto lock; do
        ran=$((ran + 1))
        timeout 300 "$ashlar" run --option "percpu=$mode" -- "$@" <"$dir/in" >"$dir/got" 2>"$dir/got.err"
        got=$?
        if [ "$got" = "$want" ] && cmp -s "$dir/want" "$dir/got" && cmp -s "$dir/want.err" "$dir/got.err"; then
            echo "ok       $name ($mode)"
        else
            failed=$((failed + 1))
            echo "FAILED   $name ($mode): exit code $got, expected $want"
            diff "$dir/want" "$dir/got" | head -n 5
            diff "$dir/want.err" "$dir/got.err" | head -n 5
        fi
    done
}

# A C file of some length, for the compiler.
i=0
{
    echo '#include <stdio.h>'
    while [ $i -lt 2000 ]; do
        echo "static int f$i(int x) { for (int i = 0; i < x; i++) x += i * $i ^ x; return x; }"
        i=$((i + 1))
    done
    echo 'int main(void) { printf("%d\n", f1(10) + f1999(20)); return 0; }'
} >"$dir/long.c"

cat >"$dir/py.py" <<'PY'
import json, os, random, sqlite3, subprocess, sys, threading, zlib
random.seed(1)
data = [{"n": i, "s": "x" * random.randrange(500)} for i in range(20000)]
print(zlib.crc32(json.dumps(json.loads(json.dumps(data))).encode()))
totals = []
def work(seed):
    r, kept = random.Random(seed), {}
    for i in range(20000):
        kept[r.randrange(500)] = bytes(r.randrange(3000))
    totals.append(sum(map(len, kept.values())))
threads = [threading.Thread(target=work, args=(s,)) for s in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(totals))
db = sqlite3.connect(":memory:")
db.execute("create table t (a integer primary key, b text)")
db.executemany("insert into t values (?, ?)", ((i, str(i) * 5) for i in range(20000)))
print(db.execute("select count(*), sum(length(b)) from t where b like '%7%'").fetchone())
print(subprocess.run([sys.executable, "-c", "print('child')"], capture_output=True).stdout)
for i in range(20):
    pid = os.fork()
    if pid == 0:
        os._exit(len([bytes(i) for i in range(2000)]) % 256)
    print(os.waitpid(pid, 0)[1])
PY
cat >"$dir/sql" <<'SQL'
create table t (a integer primary key, b text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000) insert into t select i, hex(i * i) from n;
create index x on t (b);
select count(*), sum(a), max(b) from t where b > '4';
SQL
cat >"$dir/pl.pl" <<'PL'
my %h; srand(1); $h{int(rand(50000))} .= "x" x rand(200) for 1 .. 300000; my $n = 0; $n += length for values %h; print "$n\n";
PL
cat >"$dir/js.js" <<'JS'
const m = new Map(); let x = 1;
for (let i = 0; i < 300000; i++) { x = (x * 48271) % 2147483647; m.set(x % 50000, Buffer.alloc(x % 5000, i)); }
let n = 0; for (const b of m.values()) n += b.length + b[0]; console.log(n, JSON.stringify([...m.keys()]).length);
JS

export PYTHONMALLOC=malloc PYTHONHASHSEED=0
check ls ls -lR /usr/include/linux
check python3 python3 "$dir/py.py"
for module in json threading subprocess sqlite3; do
    # The time it took is no output.
    check "python3: test_$module" sh -c "python3 -m test test_$module 2>&1 | grep -E '^(Result|Total tests)' | sort -u"
done
check "gcc, output as assembly" gcc -O2 -S -o - "$dir/long.c"
check g++ g++ -x c++ -O1 -S -o - "$dir/long.c"
check git git log --stat -p -n 20
check perl perl "$dir/pl.pl"
check node node "$dir/js.js"
check lua lua -e 'local t = {} for i = 1, 1000000 do t[i % 1000] = ("x"):rep(i % 300) end local n = 0 for _, s in pairs(t) do n = n + #s end print(n)'
check ruby ruby -e 'h = {}; 300000.times { |i| h[i % 5000] = "x" * (i % 700) }; puts h.values.sum(&:size)'
check "sort, several threads" sort -R --random-source=/dev/zero --parallel=4 "$dir/long.c"
check "tar and gzip" tar czf - -C / usr/include/linux --sort=name
check openssl openssl dgst -sha256 "$dir/long.c"
cp "$dir/sql" "$dir/in"
check sqlite3 sqlite3 :memory:
: >"$dir/in"
for absent in redis-server z3 gs postgres java chromium; do # of issue 3; not here yet
    command -v "$absent" >/dev/null 2>&1 && echo "NOT RUN  $absent is installed, and this script has no case for it"
done

echo "$ran runs, $failed failed, $skipped programs skipped"
[ "$failed" = 0 ]
