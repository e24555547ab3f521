#!/usr/bin/env bash
# The allocator without an operating system, under Miri, which finds undefined behaviour; Miri runs
# no assembly, so the rest is for other tests. Needs a nightly toolchain with the components miri
# and rust-src; nothing is downloaded here.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo +nightly miri --version >/dev/null 2>&1; then
    echo "SKIPPED: Miri is not installed (rustup toolchain install nightly --component miri,rust-src)"
    exit 0
fi
# Objects are addresses to the allocator, and pointers are made of them: provenance is exposed. The
# arena is never given back.
export MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-ignore-leaks"
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/miri" \
    timeout 1200 cargo +nightly miri test -p ashlar-alloc --no-default-features --test no_os
