#!/bin/sh
# Misuse of free: one program for each kind, its exact report, SIGABRT. Needs cargo and cc.
set -eu
cd "$(dirname "$0")/.."
exec cargo test --release -p ashlar-malloc --test defects "$@"
