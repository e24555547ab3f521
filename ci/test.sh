#!/usr/bin/env bash
# The test command of the README: unit, integration and documentation tests of the whole workspace.
# One profile for everything in CI: the peers of the lab, whose C++ takes minutes, are then compiled
# once.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo test --release "$@"
