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

# A file that no reader can hold in mind is two files.
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

# Comments and documents end at column 100. Tables, code blocks, and what a program wrote may not.
long='.{101,}'
comment='^(?=\s*(//|/\*))(?!\s*//[/!]? *\|)(?!\s*//[/!]? {4})'
if LC_ALL=C.UTF-8 git grep --untracked -nP "$comment$long" -- '*.rs' '*.c' '*.h' '*.cc' '*.ld'; then
    fail "comments beyond column 100, see above"
fi
if LC_ALL=C.UTF-8 git grep --untracked -nP "^(?=\s*# )$long" -- '*.sh' '*.toml' .ci/run Makefile; then
    fail "comments beyond column 100, see above"
fi
while IFS= read -r document; do
    perl -CSD -ne '$block = !$block if /^ *```/; chomp;
        if (!$block && !/^ *[|[<]/ && !/\]\(/ && length > 100) { print "$ARGV:$.: $_\n"; $long = 1 }
        END { exit $long }' "$document" || fail "$document: lines beyond column 100"
done < <(git ls-files --cached --others --exclude-standard '*.md' ':!docs/reproduce.md')

# Words that hide who acts, or turn a sentence into a riddle (see CONTRIBUTING.md).
words='[Ww]hoever|[Ss]omebody|[Nn]obody|goe?s? home|com(e|es|ing) home|so many as|as an own|is no business|[Ww]hosoever'
if git grep --untracked -nE "^ *(//|/\*|#).*\b($words)\b" -- '*.rs' '*.c' '*.h' '*.cc' '*.sh' Makefile .ci/run ':!ci/lint.sh'; then
    fail "words in comments that plain English does without, see above"
fi
if git grep --untracked -nwE "($words)" -- '*.md' ':!CHANGELOG.md'; then
    fail "words in documents that plain English does without, see above"
fi

cargo fmt --all -- --check || fail "format: run cargo fmt --all"
cargo fmt --manifest-path examples/kernel/Cargo.toml -- --check || fail "format: run cargo fmt in examples/kernel"
if [[ ${1:-} != --fast ]]; then
    # The release profile shares the peers' C and C++ with the tests.
    cargo clippy --workspace --all-targets --release -- -D warnings || fail "clippy"
fi
exit "$failed"
