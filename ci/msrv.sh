#!/usr/bin/env bash
# The oldest compiler that the manifest names (rust-version in Cargo.toml) builds every package and
# passes the tests. Installs it with rustup where it can; without it, says SKIPPED.
#
#   ci/msrv.sh [--all]
#
# --all   all tests of the core, the libraries and the tool (about fifteen minutes on two CPUs);
#         else the unit tests, and the suites that run the fast paths
set -euo pipefail
cd "$(dirname "$0")/.."
all=no
for argument; do
    case $argument in
    --all) all=yes ;;
    *) echo "ci/msrv.sh: $argument: expected --all" >&2; exit 2 ;;
    esac
done

version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
[[ -n $version ]] || { echo "msrv: FAILED: Cargo.toml names no rust-version" >&2; exit 1; }
installed() {
    rustc +"$version" --version >/dev/null 2>&1
}
if ! command -v rustup >/dev/null; then
    echo "SKIPPED: build and tests with Rust $version: rustup is not installed"
    exit 0
fi
if ! RUSTUP_AUTO_INSTALL=0 installed &&
    ! timeout 300 rustup toolchain install "$version" --profile minimal --no-self-update >/dev/null 2>&1; then
    echo "SKIPPED: build and tests with Rust $version: it cannot be installed here (rustup toolchain install $version)"
    exit 0
fi
rustc +"$version" --version

# A folder of its own, so that the libraries of the default compiler stay as they are.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/msrv"
ours=(-p ashlar-alloc -p ashlar-malloc -p ashlar-c -p ashlar-tool -p ashlar-workload)
cargo +"$version" build --release "${ours[@]}"
cargo +"$version" check --release -p ashlar-lab --no-default-features --all-targets
cargo +"$version" check -p ashlar-alloc --no-default-features
if [[ $all == yes ]]; then
    cargo +"$version" test --release --no-fail-fast "${ours[@]}"
else
    cargo +"$version" test --release -p ashlar-alloc --features allocator-api2 --lib --test fastpath --test smoke
    cargo +"$version" test --release -p ashlar-malloc --lib --test contract
    cargo +"$version" test --release -p ashlar-tool --lib
fi
