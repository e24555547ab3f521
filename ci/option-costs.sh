#!/usr/bin/env bash
# What options that find mistakes cost programs: CPU time on ashlar with each option, in per cent
# more than on ashlar without, and the interval in which the median lies with 95 % confidence.
#
#   ci/option-costs.sh [--rounds N] [--options LIST] [--built] [PROGRAM...]
#
# --rounds N      runs of each side; the default is 12
# --options LIST  options of the allocator, with blanks between them
# --built         what was built is used as it is
# PROGRAM         of trees, words, store (workloads of the lab), python3, perl, sqlite3; default all
#                 that are there
#
# For pairs of calls there is `cargo run --release -p ashlar-alloc --example option_cost`. Needs jq.
# Exit code: 0 done, 1 a program could not be compared, 2 for a bad option.
set -u
cd "$(dirname "$0")/.." || exit 1
target=${CARGO_TARGET_DIR:-target}
rounds=12 built=no
options='guard=100ms guard=100000 init_on_alloc=on init_on_free=on random=on quarantine=64'
known='trees words store python3 perl sqlite3'
usage() {
    echo "ci/option-costs.sh: $1" >&2
    exit 2
}
programs=()
while [ $# -gt 0 ]; do
    case $1 in
    --rounds | --options)
        [ $# -ge 2 ] || usage "$1: expected a value"
        if [ "$1" = --rounds ]; then rounds=$2; else options=$2; fi
        shift
        ;;
    --built) built=yes ;;
    *)
        [[ " $known " == *" $1 "* ]] || usage "$1: expected one of $known"
        programs+=("$1")
        ;;
    esac
    shift
done
[[ $rounds =~ ^[0-9]+$ && $rounds -ge 6 ]] || usage "--rounds: $rounds: expected 6 or more"
command -v jq >/dev/null || usage 'needs jq'
[ ${#programs[@]} -gt 0 ] || read -r -a programs <<<"$known"
if [ $built = no ]; then
    cargo build --quiet --release -p ashlar-malloc -p ashlar-tool -p ashlar-workload || exit 1
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/objects.py" <<'END'
class Node:
    def __init__(self, at, left): self.at, self.left, self.name = at, left, "n%d" % at
total = 0
for _ in range(200):
    nodes, left = [], None
    for at in range(4000):
        left = Node(at, left if at % 7 else None)
        nodes.append(left)
    table = {node.name: node for node in nodes}
    total += sum(table["n%d" % at].at for at in range(0, 4000, 3))
print(total)
END
# Python's own allocator would serve small objects otherwise.
export PYTHONMALLOC=malloc
python=/usr/bin/python3
[ -x $python ] || python=python3
# shellcheck disable=SC2016 # the dollars are Perl's
perl='my %h; for my $r (1..6) { %h = (); $h{$_ % 9000} .= "x$_" for 1..60000; } print scalar(keys %h), "\n"'
sql='create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<60000)
 insert into t select x, hex(x*x) from c; create index i on t(b); select count(*), max(b) from t;'
command_of() {
    case $1 in
    python3) argv=("$python" "$scratch/objects.py") ;;
    perl) argv=(perl -e "$perl") ;;
    sqlite3) argv=(sqlite3 :memory: "$sql") ;;
    *) argv=("$target/release/ashlar-workload" --preload "$(realpath "$target/release/libashlar_malloc.so")" "$1") ;;
    esac
}

failed=0
printf '%% of CPU time, %s rounds\n%-18s' "$rounds" ''
shown=()
for program in "${programs[@]}"; do
    command_of "$program"
    command -v "${argv[0]}" >/dev/null || continue
    # A program that cannot work costs nothing.
    if ! LD_PRELOAD=$target/release/libashlar_malloc.so "${argv[@]}" >/dev/null 2>"$scratch/error"; then
        cat "$scratch/error" >&2
        exit 1
    fi
    shown+=("$program")
    printf ' %20s' "$program"
done
echo
for option in $options; do
    printf '%-18s' "$option"
    for program in "${shown[@]}"; do
        command_of "$program"
        # A workload prints its memory, which differs from run to run.
        if "$target/release/ashlar" compare --base ashlar --option "$option" --rounds "$rounds" --no-check --json - \
            -- "${argv[@]}" >"$scratch/json" 2>"$scratch/error"; then
            printf ' %20s' "$(jq -r '.mallocs[1].changes.cpu.ratio | [.median, .low, .high]
                | map((. - 1) * 1000 | round / 10 | if . == 0 then 0 else . end) | "\(.[0]) (\(.[1]) to \(.[2]))"' "$scratch/json")"
        else
            failed=1
            printf ' %20s' failed
            cat "$scratch/error" >&2
        fi
    done
    echo
done
exit $failed
