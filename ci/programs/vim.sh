#!/bin/sh
# Edits a file without a window: substitutions, sort, undo, macros; prints the digest of the result.
# $1: the file.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp "$1" "$dir/text.c"
HOME=$dir vim -N -u NONE -i NONE -n -es -c '%s/int/long/g' -c 'g/7/move 0' -c 'sort' -c 'undo' \
    -c 'let @q="ddjp"' -c 'normal 200@q' -c '%s/\(f\)\(\d\+\)/\2\1/g' \
    -c "call writefile(map(range(1, 5000), 'printf(\"%d %s\", v:val, repeat(\"x\", v:val % 100))'), '$dir/list')" \
    -c 'wq' "$dir/text.c" >"$dir/out" 2>&1 || { cat "$dir/out"; exit 1; }
md5sum <"$dir/text.c"
md5sum <"$dir/list"
