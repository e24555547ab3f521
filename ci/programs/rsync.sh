#!/bin/sh
# Copies a tree, changes it, copies again with deltas, and prints a digest of all names and
# contents.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp -r /usr/include/linux "$dir/from"
rsync -a --checksum "$dir/from/" "$dir/to/"
for file in "$dir"/from/a*.h; do echo "/* more */" >>"$file"; done
rm -f "$dir"/from/b*.h
rsync -az --delete --no-whole-file --stats "$dir/from/" "$dir/to/" | grep -E '^Number of|^Matched data'
(cd "$dir/to" && find . -type f | sort | xargs cat | md5sum)
diff -r "$dir/from" "$dir/to" && echo same
