#!/bin/sh
# Compiles a program and runs it. $1: its source.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
javac -J-Xmx256m -d "$dir" "$1"
java -Xmx256m -cp "$dir" Work
