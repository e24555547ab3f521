#!/usr/bin/env bash
# The builds that the default one does not show: without an operating system, with every option, for
# other machines.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build -p ashlar-alloc --no-default-features
# The allocator in an arena, without the operating system under it, and with what it assumes of
# itself checked. (Without any optimisation the tests take a minute more.)
cargo test -p ashlar-alloc --config 'profile.dev.package.ashlar-alloc.opt-level=1' --no-default-features \
    --test arena --test no_os --test platform --test platform_steps --test templates
# The instructions of the fast paths in a kernel.
cargo test --release -p ashlar-alloc --no-default-features --test section
# The libraries without optimisation, where what they assume of themselves is checked.
cargo build -p ashlar-malloc -p ashlar-c
debug=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug
said=$(LD_PRELOAD=$debug/libashlar_malloc.so sh -c 'echo started; LD_PRELOAD= exec true' 2>&1)
[[ $said == started ]] || { echo "a program on the debug build says: $said" >&2; exit 1; }
# The layout of the library by the other linker that takes it: exceptions must pass it.
if command -v ld.bfd >/dev/null; then
    bfd=target/bfd
    RUSTFLAGS='-Clink-arg=-fuse-ld=bfd' CARGO_TARGET_DIR=$bfd cargo build --release -p ashlar-malloc
    c++ -std=c++17 -O1 -w -fno-builtin -pthread crates/ashlar-malloc/tests/c/cxx.cc -o "$bfd/cxx"
    said=$(LD_PRELOAD=$bfd/release/libashlar_malloc.so "$bfd/cxx" 2>&1)
    [[ $said == well ]] || { echo "a C++ program on the library of GNU ld says: $said" >&2; exit 1; }
    sections=$(readelf -SW "$bfd/release/libashlar_malloc.so")
    [[ $sections == *.text.ashlar_apart* ]] || { echo "GNU ld did not take layout.ld" >&2; exit 1; }
else
    echo "SKIPPED: the layout by GNU ld, which is not installed"
fi
cargo check --release -p ashlar-alloc --all-features --all-targets
# Collections of others in ashlar.
cargo test --release -p ashlar-alloc --features allocator-api2 --test allocator
# The lab on a machine with Rust alone. (Release, where its dependencies are compiled already.)
cargo check --release -p ashlar-lab --no-default-features

# Other machines only where their standard library is installed: nothing is downloaded here.
installed() {
    [[ -d "$(rustc --print sysroot)/lib/rustlib/$1/lib" ]]
}
for target in aarch64-unknown-linux-gnu x86_64-unknown-linux-musl; do
    if installed "$target"; then
        cargo check -p ashlar-alloc --target "$target"
    else
        echo "SKIPPED: check for $target: its standard library is not installed (rustup target add $target)"
    fi
done
# The core must not lean on std by accident; a target without std shows it.
for target in aarch64-unknown-none x86_64-unknown-none riscv64gc-unknown-none-elf; do
    if installed "$target"; then
        cargo check -p ashlar-alloc --no-default-features --target "$target"
    else
        echo "SKIPPED: check for $target: its core library is not installed (rustup target add $target)"
    fi
done
# The kernel of docs/kernel.md, whose code tests/docs.rs compares with the document. ci/lab-smoke.sh
# boots it.
target=x86_64-unknown-none
if installed "$target"; then
    kernel=(--release --locked --manifest-path examples/kernel/Cargo.toml --target "$target" --target-dir target/kernel)
    cargo build "${kernel[@]}"
    cargo clippy "${kernel[@]}" -- -D warnings -D clippy::undocumented_unsafe_blocks
else
    echo "SKIPPED: examples/kernel: the core library of $target is not installed (rustup target add $target)"
fi
