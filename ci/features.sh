#!/usr/bin/env bash
# The builds that the default one does not show: without an operating system, with every option, for other machines.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build -p ashlar --no-default-features
# The allocator in an arena, without the operating system under it.
cargo test -p ashlar --no-default-features --test arena
# The libraries without optimisation, where what they assume of themselves is checked.
cargo build -p ashlar-malloc -p ashlar-c
debug=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug
said=$(LD_PRELOAD=$debug/libashlar_malloc.so sh -c 'echo started; LD_PRELOAD= exec true' 2>&1)
[[ $said == started ]] || { echo "a program on the debug build says: $said" >&2; exit 1; }
cargo check --release -p ashlar --all-features --all-targets
# The lab on a machine with Rust alone. (Release, where its dependencies are compiled already.)
cargo check --release -p ashlar-cli --no-default-features

# Other machines only where their standard library is installed: nothing is downloaded here.
installed() {
    [[ -d "$(rustc --print sysroot)/lib/rustlib/$1/lib" ]]
}
for target in aarch64-unknown-linux-gnu x86_64-unknown-linux-musl; do
    if installed "$target"; then
        cargo check -p ashlar --target "$target"
    else
        echo "SKIPPED: check for $target: its standard library is not installed (rustup target add $target)"
    fi
done
# The core must not lean on std by accident; a target without std shows it.
for target in aarch64-unknown-none x86_64-unknown-none; do
    if installed "$target"; then
        cargo check -p ashlar --no-default-features --target "$target"
    else
        echo "SKIPPED: check for $target: its core library is not installed (rustup target add $target)"
    fi
done
