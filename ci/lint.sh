#!/usr/bin/env bash
# Format, clippy, and the rules of the repository that no compiler knows.
# `ci/lint.sh --fast` leaves clippy out.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0
fail() {
    echo "lint: $*" >&2
    failed=1
}

# Every crate takes part in the lints of the workspace.
for manifest in crates/*/Cargo.toml; do
    if ! grep -A1 -xF '[lints]' "$manifest" | grep -qx 'workspace = true'; then
        fail "$manifest: expected a section [lints] with workspace = true"
    fi
done

# A file that nobody can hold in mind is two files.
while IFS= read -r file; do
    lines=$(wc -l <"$file")
    if ((lines > 600)); then
        fail "$file: $lines lines, at most 600 are allowed"
    fi
done < <(git ls-files --cached --others --exclude-standard '*.rs')

# What is true on one machine only has no place here. The pattern is put together so that it does
# not find itself.
places='work|root|farm'
if git grep --untracked -nIE "(^|[^[:alnum:]_./-])/(${places})/|[.]lib""rary" -- .; then
    fail "paths of somebody's machine, see above"
fi

# Comments of the kind "do this later" rot; an issue does not.
if git grep --untracked -nIE "\b(TO""DO|FIX""ME|X""XX)\b" -- '*.rs' '*.sh' '*.toml'; then
    fail "notes to self, see above"
fi

cargo fmt --all -- --check || fail "format: run cargo fmt --all"
if [[ ${1:-} != --fast ]]; then
    # The release profile shares the peers' C and C++ with the tests.
    cargo clippy --workspace --all-targets --release -- -D warnings || fail "clippy"
fi
exit "$failed"
