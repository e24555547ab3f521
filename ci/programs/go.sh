#!/bin/sh
# Compiles a Go program with cgo, once and without the library (Go's tools are static), and runs it.
# $1: its source. $2: a directory that stays.
set -eu
if [ ! -x "$2/cgo" ]; then
    mkdir -p "$2/source"
    cp "$1" "$2/source/main.go"
    (cd "$2/source" && unset LD_PRELOAD LD_DEBUG && printf 'module cgo\n\ngo 1.18\n' >go.mod &&
        GOCACHE="$2/cache" GOFLAGS=-mod=mod CGO_ENABLED=1 go build -o "$2/cgo" . >"$2/log" 2>&1) || { cat "$2/log"; exit 1; }
fi
"$2/cgo"
