#!/usr/bin/env bash
# Larger pages than 4 KiB, as the kernel of IA64 had and those of aarch64 may have.
#
#   ci/pages.sh        with pages of 16 KiB: the unit and property tests, the engine slab24, and the
#                      growth of the zone
#   ci/pages.sh all    also the conformance and model tests of all engines, which choose sections by
#                      rseq and by locks, and one node and four, themselves; and with pages of 64
#                      KiB the unit and property tests
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in
"") tests=(--lib --test slab24 --test growth) ;;
all) tests=(--lib --test slab24 --test growth --test engines --test model) ;;
*) echo "ci/pages.sh: $1: expected all" >&2; exit 2 ;;
esac
cargo test --release -p ashlar-alloc --features page-16k "${tests[@]}"
[[ ${1:-} != all ]] || cargo test --release -p ashlar-alloc --features page-64k --lib
