#!/bin/sh
# Misuse: one program for each kind, what becomes of it, and its exact report. Needs cargo, cc, c++.
#
#   ci/defects.sh               tests the reports, and that docs/defects.md has what the programs do
#   ci/defects.sh --update      writes docs/defects.md
#   ci/defects.sh --peers DIR   prints what other allocators do; their libraries lie in DIR
#                               (lab/peers/build.sh makes target/peers). With --update behind it,
#                               docs/defects.md has that, too
set -eu
cd "$(dirname "$0")/.."
case ${1-} in
--update)
    ASHLAR_UPDATE_GOLDEN=1 exec cargo test --release -p ashlar-malloc --test defect_table
    ;;
--peers)
    ASHLAR_PEERS=$(cd "${2:-target/peers}" && pwd)
    export ASHLAR_PEERS
    [ "${3-}" != --update ] || export ASHLAR_UPDATE_GOLDEN=1
    exec cargo test --release -q -p ashlar-malloc --test defect_table peers -- --ignored --nocapture
    ;;
*)
    exec cargo test --release -p ashlar-malloc --test defects --test defect_table "$@"
    ;;
esac
