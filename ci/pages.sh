#!/usr/bin/env bash
# Larger pages than 4 KiB, as the kernel of IA64 had and those of aarch64 may have. With pages of 16
# KiB: the unit and property tests, the growth of the zone, and the conformance and model tests of
# all engines, which choose sections by rseq and by locks, and one node and four, themselves. With
# 64 KiB: the unit and property tests.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --release -p ashlar-alloc --features page-16k --lib --test engines --test model \
    --test slab24 --test growth "$@"
cargo test --release -p ashlar-alloc --features page-64k --lib "$@"
