#!/bin/sh
# A page with a script, without a window; prints the digest of its picture. $1: the page.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export HOME="$dir" MOZ_CRASHREPORTER_DISABLE=1 MOZ_DISABLE_AUTO_SAFE_MODE=1
mkdir "$dir/profile"
firefox-esr --headless --no-remote --profile "$dir/profile" --window-size=400,300 --screenshot "$dir/picture.png" "file://$1" \
    >"$dir/log" 2>&1 || { code=$?; tail -n 5 "$dir/log"; exit $code; }
md5sum <"$dir/picture.png"
grep -ciE 'crash|segmentation|MOZ_RELEASE_ASSERT' "$dir/log" || :
