#!/bin/sh
# Explores the models of crates/ashlar/src/models with loom: the interleavings of their threads
# within LOOM_MAX_PREEMPTIONS preemptions (3 unless set). Arguments choose models by name.
set -eu
cd "$(dirname "$0")/.."

export RUSTFLAGS="--cfg ashlar_loom"
export LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-3}"
# Exploration is slow without optimisation, and the assertions of the code under test belong to the
# models.
export CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true
# Own target directory: the flags differ from those of every other build.
export CARGO_TARGET_DIR="$PWD/target/loom"

# One thread: the models run one after another anyhow, and the counts of interleavings stay beside
# their names.
cargo test --release -p ashlar-alloc --lib -- --test-threads=1 --nocapture "$@"
