#!/bin/sh
# A program under valgrind, without a tool and with memcheck, which has its own malloc. $1: the
# source.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
env -u LD_PRELOAD -u LD_DEBUG cc -g -O1 -pthread -fno-builtin -o "$dir/traced" "$1"
valgrind -q --tool=none "$dir/traced"
valgrind -q --error-exitcode=9 "$dir/traced"
