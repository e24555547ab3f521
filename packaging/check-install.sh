#!/usr/bin/env bash
# What was installed works: programs are built on it with pkg-config and with CMake and run, a
# program runs under the installed tool, manual pages can be read. Called by `make check-install`,
# which tells where things are. What the machine lacks (pkg-config, cmake, a C++ compiler, man) is
# skipped, and said. Exit code 0 if nothing failed.
set -uo pipefail
tests=$(cd "$(dirname "$0")/tests" && pwd)
for name in PREFIX BINDIR LIBDIR INCLUDEDIR MANDIR DOCDIR PKGCONFIGDIR CMAKEDIR VERSION; do
    [[ -n ${!name:-} ]] || { echo "check-install: $name is not set: call it by make check-install" >&2; exit 2; }
done
: "${DESTDIR:=}" "${CC:=cc}" "${CXX:=c++}" "${PKG_CONFIG:=pkg-config}" "${CMAKE:=cmake}"
lib=$DESTDIR$LIBDIR
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0 checked=0

has() {
    command -v "$1" >/dev/null 2>&1
}

skip() {
    echo "SKIPPED: $*"
}

# check WHAT COMMAND...: the command must succeed; what it said is shown if it does not.
check() {
    local what=$1
    shift
    checked=$((checked + 1))
    if ! "$@" >"$out/said" 2>&1; then
        echo "check-install: FAILED: $what: $*" >&2
        cat "$out/said" >&2
        failed=1
        return 1
    fi
}

# The program prints the version and a mode in which it can work.
prints_version() {
    local line
    line=$(LD_LIBRARY_PATH=$lib "$@") || { echo "exit code $?"; return 1; }
    [[ $line =~ ^"ashlar $VERSION "(rseq|lock)$ ]] || { echo "unexpected: $line"; return 1; }
}

runs() {
    LD_LIBRARY_PATH=$lib "$@"
}

# Every shared library answers to the name of its link, which is what programs ask for.
soname() {
    local file=$1 name
    name=$(LC_ALL=C objdump -p "$file" | awk '$1 == "SONAME" { print $2 }')
    [[ -n $name && $(realpath "$(dirname "$file")/$name") == "$(realpath "$file")" ]] ||
        { echo "$file: its soname \"$name\" is no link to it"; return 1; }
}

pkg() {
    PKG_CONFIG_SYSROOT_DIR=$DESTDIR PKG_CONFIG_LIBDIR=$DESTDIR$PKGCONFIGDIR \
        PKG_CONFIG_PATH='' "$PKG_CONFIG" "$@"
}

for name in libashlar libashlar_malloc; do
    check "files of $name" test -f "$lib/$name.a" -a -f "$lib/$name.so"
    if has objdump; then check "soname of $name" soname "$lib/$name.so"; else skip "soname: no objdump"; fi
done

# Every link of a document leads to a file that was installed with it.
links_lead_somewhere() {
    local document=$1 target
    while IFS= read -r target; do
        target=${target%%#*}
        [[ -z $target || $target == http* || -e $(dirname "$document")/$target ]] || { echo "$document: $target"; return 1; }
    done < <(grep -o ']([^)]*)' "$document" | sed 's/^](//; s/)$//')
}
for document in "$DESTDIR$DOCDIR"/*.md "$DESTDIR$DOCDIR"/docs/*.md; do
    check "links of $(basename "$document")" links_lead_somewhere "$document"
done

if ! has "$PKG_CONFIG"; then
    skip "pkg-config: $PKG_CONFIG is not installed"
elif ! has "$CC"; then
    skip "programs in C: $CC is not installed"
else
    # build OUTPUT COMPILER SOURCE MODULES FLAGS...
    build() {
        local output=$1 compiler=$2 source=$3 modules=$4 static='' flags
        shift 4
        [[ " $* " != *' -static '* ]] || static=--static
        flags=$(pkg $static --cflags --libs $modules) || return 1
        # shellcheck disable=SC2086 # the flags are words
        "$compiler" -Wall -Werror "$@" -o "$out/$output" "$source" $flags
    }
    check "version of the module" test "$(pkg --modversion ashlar)" = "$VERSION"
    check "C program" build shared "$CC" "$tests/program.c" ashlar && check "C program" prints_version "$out/shared"
    check "static C program" build static "$CC" "$tests/program.c" ashlar -static &&
        check "static C program" prints_version "$out/static"
    check "kernel code" build kernel "$CC" "$tests/kernel.c" ashlar-linux && check "kernel code" runs "$out/kernel"
    check "linked malloc" build malloc "$CC" "$tests/malloc.c" ashlar-malloc && check "linked malloc" runs "$out/malloc"
    check "static malloc" build malloc-static "$CC" "$tests/malloc.c" ashlar-malloc -static &&
        check "static malloc" runs "$out/malloc-static"
    check "both libraries" build both "$CC" "$tests/program.c" 'ashlar ashlar-malloc' &&
        check "both libraries" prints_version "$out/both"
    if has "$CXX"; then
        cp "$tests/program.c" "$out/program.cc"
        check "C++ program" build cxx "$CXX" "$out/program.cc" ashlar && check "C++ program" prints_version "$out/cxx"
    else
        skip "programs in C++: $CXX is not installed"
    fi
    # A tree that was moved: pkg-config takes the prefix from the place of the file.
    if [[ $PKGCONFIGDIR == "$PREFIX/lib/pkgconfig" ]]; then
        moved() {
            local flags
            flags=$(PKG_CONFIG_LIBDIR=$DESTDIR$PKGCONFIGDIR "$PKG_CONFIG" --define-prefix --cflags --libs ashlar) || return 1
            # shellcheck disable=SC2086
            "$CC" -o "$out/moved" "$tests/program.c" $flags
        }
        check "moved tree" moved && check "moved tree" prints_version "$out/moved"
    fi
fi

if ! has "$CMAKE" || ! has "$CXX"; then
    skip "find_package: $CMAKE or $CXX is not installed"
else
    mkdir "$out/cmake"
    cp "$tests"/*.c "$out/cmake/"
    sed "s/@VERSION@/$VERSION/" "$tests/CMakeLists.txt" >"$out/cmake/CMakeLists.txt"
    if check "find_package" "$CMAKE" -S "$out/cmake" -B "$out/cmake/build" -Dashlar_DIR="$DESTDIR$CMAKEDIR" \
        -DCMAKE_BUILD_TYPE=Release && check "CMake's build" "$CMAKE" --build "$out/cmake/build"; then
        for name in shared shared-cxx archive; do
            check "CMake: $name" prints_version "$out/cmake/build/$name"
        done
        for name in kernel malloc malloc-archive; do
            check "CMake: $name" runs "$out/cmake/build/$name"
        done
    fi
    # A version that is not there must not be found.
    sed "s/@VERSION@/99.0/" "$tests/CMakeLists.txt" >"$out/cmake/CMakeLists.txt"
    if "$CMAKE" -S "$out/cmake" -B "$out/cmake/other" -Dashlar_DIR="$DESTDIR$CMAKEDIR" >"$out/said" 2>&1; then
        echo "check-install: FAILED: CMake found version 99.0" >&2
        failed=1
    fi
fi

# The tool, found as a user finds it; the program's own output must come through.
tool=$DESTDIR$BINDIR/ashlar
check "version of the tool" test "$("$tool" --version)" = "ashlar $VERSION"
under_the_tool() {
    local said
    said=$(env -u LD_LIBRARY_PATH "$tool" run --stats=json -- ls / 2>"$out/stats") || { cat "$out/stats"; return 1; }
    [[ $said == "$(ls /)" ]] || { echo "other output: $said"; return 1; }
    grep -q '"mode":"' "$out/stats" || { echo "no figures:"; cat "$out/stats"; return 1; }
}
check "ashlar run" under_the_tool
compared() {
    local said
    said=$("$tool" compare --rounds 2 -- ls / 2>&1) || { echo "$said"; return 1; }
    grep -q '^ashlar: .* time' <<<"$said" || { echo "no answer: $said"; return 1; }
}
check "ashlar compare" compared

page() {
    [[ -n $(MANPATH=$DESTDIR$MANDIR LC_ALL=C.UTF-8 MANPAGER=cat MANWIDTH=80 man "$@") ]]
}
if has man; then
    for name in '1 ashlar' '3 libashlar' '7 ashlar' '3 kmem_cache_create' '3 kfree'; do
        # shellcheck disable=SC2086
        check "manual page $name" page $name
    done
else
    skip "manual pages: man is not installed"
fi

((failed)) || echo "check-install: $checked checks of $DESTDIR$PREFIX passed"
exit "$failed"
