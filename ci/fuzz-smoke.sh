#!/usr/bin/env bash
# The property tests again with more cases, each run with new random numbers. A failure prints the
# smallest list of operations that shows it; put that list into the test file as a test of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
export PROPTEST_CASES="${PROPTEST_CASES:-1000}"
# The bound is generous: it stops a hang, it judges no speed.
timeout 900 cargo test --release -p ashlar-alloc --lib
timeout 900 cargo test --release -p ashlar-alloc --test model
