#!/usr/bin/env bash
# The lab runs, writes what it measured, and reads it back. The figures are not judged: a shared
# machine decides nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
lab=(cargo run --quiet --release -p ashlar-lab --)
"${lab[@]}" bench A C --systems ashlar,glibc,limit --sizes 64 --objects 1000 --rounds 1 --json "$out/out.json"
"${lab[@]}" bench --from "$out/out.json" --style kernel | grep -q 'kmalloc(64)'
# Every system that was built starts and answers.
"${lab[@]}" bench C --systems all --sizes 64 --objects 1000 --rounds 1
# Simulations need two CPUs to measure on.
if (($(nproc) >= 2)); then
    "${lab[@]}" simulate --systems slab,ashlar --sizes 64 --objects 500 --cpus 2,8 --nodes 1,2 --json "$out/sim.json"
    "${lab[@]}" simulate --from "$out/sim.json" --cpus 1024 --nodes 16 | grep -q SIMULATED
else
    echo "SKIPPED: simulate needs two CPUs"
fi
# Whole programs: the same work on glibc and on ashlar.
"${lab[@]}" bench programs --workloads pairs,numbers,churn --systems glibc,ashlar --rounds 1 --scale 0.02
# Every claim gets a verdict, and the page is written. A run that this machine cannot make is told,
# and is no failure here.
"${lab[@]}" reproduce --quick --runs tests,slob --json "$out/report.json" --html "$out/report.html" | grep -q QUICK
"${lab[@]}" reproduce --from "$out/report.json" | grep -q '[0-9] claims: [0-9]* reproduced'
grep -q '<svg class="chart"' "$out/report.html"
# The kernel boots, on several CPUs and nodes, and nothing is lost.
if ! command -v qemu-system-x86_64 >/dev/null; then
    echo "SKIPPED: booting examples/kernel needs QEMU (apt-get install qemu-system-x86)"
elif [[ ! -d "$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-none" ]]; then
    echo "SKIPPED: booting examples/kernel: rustup target add x86_64-unknown-none"
else
    "${lab[@]}" kernel --cpus 4 --nodes 2 --sizes 64 --objects 200 --seconds 0 --json "$out/kernel.json"
    grep -q '"kernel-F"' "$out/kernel.json"
fi
# Bad input is named and ends with code 2.
code=0
"${lab[@]}" bench --sizes 0 2>"$out/err" || code=$?
if ((code != 2)) || ! grep -q sizes "$out/err"; then
    echo "lab: expected exit code 2 and the name of the option, got $code" >&2
    exit 1
fi
