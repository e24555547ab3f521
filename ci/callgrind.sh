#!/bin/sh
# Counts the instructions of a kmalloc and kfree pair by callgrind and compares with the golden
# file. The program pairs N times and 2 N times: the difference, over N, is the pair and its loop,
# without the start. Needs valgrind. Valgrind knows no rseq, so the program runs with
# percpu=emulate.
set -eu
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "callgrind.sh: valgrind is not installed" >&2; exit 2; }
golden=crates/ashlar/tests/golden/fast-path.txt
target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
cargo build --quiet --release -p ashlar-alloc --example pairs
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
count() { # pairs
    ASHLAR_OPTIONS=percpu=emulate,reaper=off valgrind --tool=callgrind --callgrind-out-file="$out/$1" \
        "$target/release/examples/pairs" "$1" >"$out/log" 2>&1 || { cat "$out/log" >&2; exit 1; }
    sed -n 's/^\(summary\|totals\): \([0-9]*\).*/\2/p' "$out/$1" | head -n 1
}
n=100000
few=$(count $n)
many=$(count $((2 * n)))
pair=$(((many - few + n / 2) / n))
expected=$(sed -n 's/^ *\([0-9]*\) called pair: kmalloc, kfree$/\1/p' "$golden")
# The loop itself: two calls, an argument, a move, a count, a compare and a jump, at most.
loop=8
echo "callgrind: $pair instructions a pair with its loop; golden: $expected without"
if [ "$pair" -lt "$expected" ] || [ "$pair" -gt $((expected + loop)) ]; then
    echo "callgrind.sh: expected $expected to $((expected + loop))" >&2
    exit 1
fi
