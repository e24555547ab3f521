#!/bin/sh
# One stressor of stress-ng, two processes of it, a fixed number of operations. $1: its name.
set -eu
case $1 in
malloc) set -- malloc 20000 --malloc-pthreads 2 ;;
fork) set -- fork 2000 ;;
vfork) set -- vfork 5000 ;;
clone) set -- clone 300 ;;
pthread) set -- pthread 5000 ;;
rseq) set -- rseq 200 ;;
membarrier) set -- membarrier 2000 ;;
memfd) set -- memfd 50 ;;
mlock) set -- mlock 300 ;;
esac
name=$1 ops=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
code=0
stress-ng --temp-path "$dir" "--$name" 2 "--$name-ops" "$ops" --timeout 30 --verify "$@" >"$dir/log" 2>&1 || code=$?
grep -iE 'fail|error|corrupt|skipp' "$dir/log" | sed 's/\[[0-9]*\]/[]/; s/in [0-9.]*s/in some time/; s/(.*)//' | sort -u || :
echo "$name: exit code $code"
exit "$code"
