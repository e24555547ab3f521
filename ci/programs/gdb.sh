#!/bin/sh
# gdb with a program that it starts: break, step, call a function that allocates, watch, go on. $1:
# the source.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
env -u LD_PRELOAD -u LD_DEBUG cc -g -O1 -pthread -fno-builtin -o "$dir/traced" "$1"
gdb -nx -batch -ex 'set confirm off' -ex 'set print thread-events off' -ex 'set debuginfod enabled off' -ex 'break middle' -ex run -ex bt -ex 'call twice(400)' \
    -ex 'call (long)strlen((char*)strdup("text"))' -ex 'thread apply 1 bt 2' -ex finish -ex 'break twice' -ex continue \
    -ex next -ex next -ex 'info locals' -ex delete -ex continue "$dir/traced" 2>&1 </dev/null |
    grep -vE 'Using host|Thread debugging|^\[|^Thread |0x[0-9a-f]{6,}|Download|warning|^$' | sed "s#$dir#.#g"
