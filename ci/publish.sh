#!/usr/bin/env bash
# Every package of the workspace could be published: it has a README, both licences and a
# description, and builds from nothing but the files in it. Uploads nothing. `cargo publish
# --dry-run` asks the registry for its index; without a network `cargo package` does the rest, and a
# line says SKIPPED.
#
#   ci/publish.sh
set -euo pipefail
cd "$(dirname "$0")/.."
said=$(mktemp)
# Cargo unpacks the packages of the workspace as those of a registry that is named after the path of
# the target directory, and trusts that a version of a registry never changes. In a directory of an
# earlier run it would take an older state of this project. So each run has a directory of its own.
target=$(mktemp -d)
export CARGO_TARGET_DIR=$target
clean_up() {
    rm -rf "$said" "$target"
    local package
    for package in "${packages[@]}"; do
        rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/"$package"-[0-9]*
    done
}
packages=()
trap clean_up EXIT
failed=0
fail() {
    echo "publish: FAILED: $*" >&2
    failed=1
}

mapfile -t packages < <(sed -n 's/^name = "\(ashlar-[a-z]*\)"$/\1/p' crates/*/Cargo.toml)
((${#packages[@]} >= 6)) || fail "packages found: ${packages[*]}"
for package in "${packages[@]}"; do
    list=$(cargo package --quiet --allow-dirty --list -p "$package" 2>/dev/null)
    for file in Cargo.toml README.md LICENSE-MIT LICENSE-APACHE; do
        grep -qx "$file" <<<"$list" || fail "$package: no $file in the package"
    done
done
list=$(cargo package --quiet --allow-dirty --list -p ashlar-c 2>/dev/null)
for file in include/ashlar.h include/linux/slab.h; do
    grep -qx "$file" <<<"$list" || fail "ashlar-c: no $file in the package"
done

# The lab without its peers, whose C++ takes minutes: its own files are the same.
parts=("--workspace --exclude ashlar-lab" "-p ashlar-macros -p ashlar-alloc -p ashlar-tool -p ashlar-workload -p ashlar-lab --no-default-features")
for part in "${parts[@]}"; do
    # shellcheck disable=SC2086 # the parts are lists of arguments
    if timeout 600 cargo publish --dry-run --allow-dirty $part >"$said" 2>&1; then
        echo "publish: cargo publish --dry-run $part: passed"
    elif grep -qiE 'resolve host|connect|timed? ?out|failed to (update|query|download|fetch)|spurious network|offline was specified' "$said"; then
        echo "SKIPPED: cargo publish --dry-run $part: the registry does not answer; building the packages instead"
        # shellcheck disable=SC2086
        if ! timeout 600 cargo package --offline --allow-dirty $part >"$said" 2>&1; then
            cat "$said" >&2
            fail "cargo package $part"
        fi
    else
        cat "$said" >&2
        fail "cargo publish --dry-run $part"
    fi
    # What cargo finds missing in a manifest.
    if grep -A1 -E '^warning: manifest has no' "$said"; then
        fail "a manifest lacks what the registry shows"
    fi
done
((failed)) || echo "publish: all passed"
exit "$failed"
