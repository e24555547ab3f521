#!/bin/sh
# A page with a script, without a window; prints the page as the script left it. The browser's own
# objects come from its PartitionAlloc; what its C libraries allocate comes from malloc. $1: the
# page.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
root=
[ "$(id -u)" = 0 ] && root=--no-sandbox
chromium --headless $root --disable-gpu --disable-dev-shm-usage --no-first-run --user-data-dir="$dir" --dump-dom "file://$1" 2>"$dir/err" ||
    { code=$?; tail -n 5 "$dir/err"; exit $code; }
