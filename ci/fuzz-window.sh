#!/usr/bin/env bash
# Fuzzes the reader of windows for so many seconds (60): a process that lies about its memory must
# not crash the tool, nor keep it. Needs a nightly compiler, and prints the executions.
set -euo pipefail
cd "$(dirname "$0")/../fuzz"
seconds=${1:-60}
if ! rustc +nightly --version >/dev/null 2>&1; then
    echo "SKIPPED: no nightly compiler, so the reader of windows was not fuzzed"
    exit 0
fi
# What cargo-fuzz does, without it. The target is named so that build scripts are not instrumented.
export RUSTFLAGS="-Cpasses=sancov-module -Ccodegen-units=1 \
-Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-$PWD/target}
cargo +nightly build --release --target "$host"
mkdir -p corpus/window artifacts/window
"$folder/$host/release/window" -max_total_time="$seconds" -max_len=65536 -len_control=20 -timeout=20 \
    -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix=artifacts/window/ corpus/window seeds/window
