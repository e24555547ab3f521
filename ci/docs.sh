#!/usr/bin/env bash
# The documentation builds without a warning: no broken link, no public item without a docstring.
set -euo pipefail
cd "$(dirname "$0")/.."
# Release, so that the build scripts of the peers are those of the tests.
RUSTDOCFLAGS="-D warnings" exec cargo doc --release --no-deps --workspace
