#!/usr/bin/env bash
# Real programs on ashlar: each runs without it, and with it in four modes; output and exit code
# must be equal.
#
#   ci/programs.sh [--all] [--no-install] [--quick] [--modes LIST] [NAME...]
#
# --all         everything, with missing programs installed from Debian, as root; this is the
#               default
#               where apt-get exists
# --no-install  do not install missing programs
# --quick       only what is there already and takes seconds: for CI
# --modes LIST  of these, separated by commas: auto (restartable sequences), lock (percpu=lock),
#               nodes (nodes=4), norseq (GLIBC_TUNABLES=glibc.pthread.rseq=0), and own (norseq with
#               percpu=rseq); the default is the first four
# NAME          only the programs whose name contains one of these
#
# That the library was loaded is read from the dynamic linker's own log of every process
# (LD_DEBUG=files), which must show that the program named by `-p` initialised it. What is not
# installed is skipped, and said so. What hangs is ended, with the stacks of all its threads. The
# programs stand in ci/programs/list-*.sh.
# Ends with a table and `N passed, M failed, K skipped`; exit code 0 exactly if none failed, 2 for a
# bad option.
set -u
cd "$(dirname "$0")/.." || exit 1

install=no quick=no only=() modes=(auto lock nodes norseq)
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && install=yes
while [ $# -gt 0 ]; do
    case $1 in
    --all) quick=no install=yes ;;
    --install) install=yes ;;
    --no-install) install=no ;;
    --quick) quick=yes install=no ;;
    --modes)
        shift
        IFS=, read -r -a modes <<<"${1:-}"
        for mode in "${modes[@]:-none}"; do
            case $mode in
            auto | lock | nodes | norseq | own) ;;
            *) echo "ci/programs.sh: $mode: expected auto, lock, nodes, norseq or own" >&2; exit 2 ;;
            esac
        done
        ;;
    -*) echo "ci/programs.sh: $1: expected --all, --install, --no-install, --quick or --modes" >&2; exit 2 ;;
    *) only+=("$1") ;;
    esac
    shift
done

if [ $install = yes ]; then
    . ci/programs/packages.sh
    packages
fi

cargo build --release -q -p ashlar-tool -p ashlar-malloc || exit 1
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
# Copies, in a place that any user may read: postgres does not run as root.
chmod 755 "$dir"
built=${CARGO_TARGET_DIR:-target}/release
cp "$built/ashlar" "$built/libashlar_malloc.so" "$dir" && cp -r ci/programs "$dir/programs" &&
    cp tests/behaviour/backtrace.sh "$dir/programs" || exit 1
chmod -R a+rX "$dir"
pieces=$dir/programs
: >"$dir/in"
export PATH=$PATH:/usr/sbin:/sbin

. "$pieces/lib.sh"
auto=$(mode_of env)
echo "percpu=auto is ${auto:-nothing} here, with rseq=0 $(mode_of env GLIBC_TUNABLES=glibc.pthread.rseq=0)"
[ -n "$auto" ] || { echo "FAILED: a trivial program prints no figures" >&2; exit 1; }

. "$pieces/list-languages.sh"
. "$pieces/list-tools.sh"
. "$pieces/list-system.sh"
. "$pieces/list-servers.sh"

printf '\n%-34s' program
printf '  %-11s' "${modes[@]/#auto/auto: $auto}"
echo
printf '%s\n' "${table[@]}"
for mode in "${modes[@]}"; do
    echo "$mode: ${counts[$mode.ok]:-0} passed, ${counts[$mode.failed]:-0} failed, ${counts[$mode.skipped]:-0} skipped"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
