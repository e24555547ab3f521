#!/usr/bin/env bash
# Builds what `ashlar bench bulk --systems dpdk` needs beside DPDK's own test program, which Debian
# has in the package dpdk-dev (`apt-get install dpdk-dev`, by hand: it is large). The result goes to
# target/dpdk, beside the tool. Usage: lab/dpdk/build.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! command -v dpdk-test >/dev/null; then
    echo "lab/dpdk: no dpdk-test in PATH: \`apt-get install dpdk-dev\` brings it" >&2
    exit 1
fi
dir=${CARGO_TARGET_DIR:-target}/dpdk
mkdir -p "$dir"
"${CC:-cc}" -O2 -Wall -Wextra -shared -fPIC lab/dpdk/short_time.c -o "$dir/libshort_time.so" -ldl
echo "$dir/libshort_time.so"
