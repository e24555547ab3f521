#!/usr/bin/env bash
# The peers of `ashlar bench programs` as shared libraries, from the sources that the lab's crates
# carry.
#
#   lab/peers/build.sh [NAME...]       NAME: mimalloc jemalloc snmalloc rpmalloc; default these four
#                                      scudo hardened_malloc: for ci/defects.sh, only by name
#
# They go to target/peers (or $CARGO_TARGET_DIR/peers), each with a file NAME.version, and are built
# as their makers say for a library that replaces malloc: release mode, initial-exec thread-local
# storage. Needs cargo (for the sources), cc, c++, make and cmake. Exit code: 0 done, 1 a build
# failed, 2 a name that is none.
#
# scudo is copied from clang's library (Debian's package libclang-rt-19-dev). hardened_malloc comes
# from a crate that the lab does not depend on, which cargo fetches.
#
# tcmalloc is missing: Google's is made to be linked into programs, not to be preloaded; gperftools'
# is Debian's package libtcmalloc-minimal4, which `ashlar bench programs` finds by itself.
set -euo pipefail
cd "$(dirname "$0")/../.."
all=(mimalloc jemalloc snmalloc rpmalloc)
known=("${all[@]}" scudo hardened_malloc)
for name in "$@"; do
    if [[ " ${known[*]} " != *" $name "* ]]; then
        echo "lab/peers/build.sh: $name: expected one of ${known[*]}" >&2
        exit 2
    fi
done
(($#)) || set -- "${all[@]}"

out=${CARGO_TARGET_DIR:-target}/peers
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
jobs=${JOBS:-$(nproc)}

# The directory of a crate's sources, as cargo unpacked them; `cargo fetch` gets what is missing.
manifests=$(cargo metadata --format-version 1 --locked 2>/dev/null | tr ',' '\n' |
    sed -n 's/^"manifest_path":"\(.*\)\/Cargo.toml"}*$/\1/p')
crate() {
    local dir
    dir=$(grep -E "/$1-[0-9][^/]*$" <<<"$manifests" | head -n 1)
    if [[ -z $dir ]]; then
        echo "lab/peers/build.sh: cargo knows no crate $1" >&2
        return 1
    fi
    echo "$dir"
}
crate_version() { basename "$1" | sed "s/^$2-//"; }

build_mimalloc() {
    local dir source version
    dir=$(crate libmimalloc-sys)
    source=$dir/c_src/mimalloc/v3
    cc -O3 -fPIC -shared -fvisibility=hidden -ftls-model=initial-exec -fno-builtin-malloc -Wno-error=date-time \
        -DNDEBUG -DMI_BUILD_RELEASE -DMI_MALLOC_OVERRIDE -DMI_SHARED_LIB -DMI_SHARED_LIB_EXPORT -DMI_DEBUG=0 \
        -I"$source/include" -I"$source/src" "$source/src/static.c" -o "$work/libmimalloc.so" -lpthread
    version=$(sed -n 's/^#define MI_MALLOC_VERSION  *\([0-9]*\).*/\1/p' "$source/include/mimalloc.h")
    echo "mimalloc $((version / 10000)).$((version / 100 % 100)).$((version % 100))" \
        "(libmimalloc-sys $(crate_version "$dir" libmimalloc-sys))" >"$work/mimalloc.version"
}

build_jemalloc() {
    local dir version
    dir=$(crate tikv-jemalloc-sys)
    version=$(crate_version "$dir" tikv-jemalloc-sys)
    cp -r "$dir/jemalloc" "$work/jemalloc"
    # The crate keeps the generated script apart, and names the revision in its own version.
    cp "$dir/configure/configure" "$work/jemalloc/"
    {
        (cd "$work/jemalloc" && ./configure --with-version="${version#*+}" --disable-doc --disable-static) &&
            make -C "$work/jemalloc" -j"$jobs" build_lib_shared
    } >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; return 1; }
    cp -L "$work/jemalloc/lib/libjemalloc.so" "$work/libjemalloc.so"
    echo "jemalloc (tikv-jemalloc-sys $(crate_version "$dir" tikv-jemalloc-sys))" >"$work/jemalloc.version"
}

build_snmalloc() {
    local dir
    dir=$(crate snmalloc-sys)
    {
        cmake -S "$dir/upstream" -B "$work/snmalloc" -DCMAKE_BUILD_TYPE=Release -DSNMALLOC_BUILD_TESTING=OFF &&
            cmake --build "$work/snmalloc" --target snmallocshim -j "$jobs"
    } >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; return 1; }
    cp -L "$work/snmalloc/libsnmallocshim.so" "$work/libsnmalloc.so"
    echo "snmalloc (snmalloc-sys $(crate_version "$dir" snmalloc-sys))" >"$work/snmalloc.version"
}

build_rpmalloc() {
    local dir
    dir=$(crate rpmalloc-sys)
    cc -O3 -fPIC -shared -D_GNU_SOURCE -DNDEBUG -DENABLE_PRELOAD=1 -DENABLE_OVERRIDE=1 -ftls-model=initial-exec \
        -fno-builtin-malloc -w "$dir/rpmalloc/rpmalloc/rpmalloc.c" -o "$work/librpmalloc.so" -lpthread -ldl
    echo "rpmalloc (rpmalloc-sys $(crate_version "$dir" rpmalloc-sys))" >"$work/rpmalloc.version"
}

build_scudo() {
    local library
    library=$(find /usr/lib -path "*clang*libclang_rt.scudo_standalone-$(uname -m).so" 2>/dev/null | sort -V | tail -n 1)
    if [[ -z $library ]]; then
        echo "lab/peers/build.sh: no libclang_rt.scudo_standalone: Debian has it in libclang-rt-19-dev" >&2
        return 1
    fi
    cp "$library" "$work/libscudo.so"
    echo "scudo (LLVM $(sed -n 's|.*/llvm-\([0-9]*\)/.*|\1|p' <<<"$library"))" >"$work/scudo.version"
}

build_hardened_malloc() {
    local version=16.0.2026071503 dir source defines
    mkdir -p "$work/fetch"
    printf '[package]\nname = "fetch"\n[lib]\npath = "lib.rs"\n[workspace]\n[dependencies]\n%s\n' \
        "hardened-malloc-sys = { version = \"=$version\", default-features = false }" >"$work/fetch/Cargo.toml"
    touch "$work/fetch/lib.rs"
    dir=$(cargo metadata --quiet --manifest-path "$work/fetch/Cargo.toml" --format-version 1 | tr ',' '\n' |
        sed -n 's/^"manifest_path":"\(.*hardened-malloc-sys-.*\)\/Cargo.toml"}*$/\1/p')
    source=$dir/vendor/hardened-malloc
    # Its makers' defaults, in a file of the crate. The headers stand in for words that C has since
    # C23, which older compilers do not know.
    mapfile -t defines < <(sed -n 's/^\([A-Z].*\)/-D\1/p' "$dir/config-default.conf")
    cc -std=gnu2x -include stdalign.h -include stdbool.h -include assert.h -include threads.h -O3 -fPIC -shared \
        -fvisibility=hidden -ftls-model=initial-exec -D_GNU_SOURCE "${defines[@]}" \
        -I"$source" -I"$source/include" -I"$source/third_party" \
        "$source"/{chacha,h_malloc,memory,pages,random,util}.c -o "$work/libhardened_malloc.so" -lpthread
    echo "hardened_malloc (hardened-malloc-sys $version)" >"$work/hardened_malloc.version"
}

failed=0
for name in "$@"; do
    # (In the condition of an `if`, the shell would go on after a command that failed.)
    set +e
    (set -e; "build_$name")
    code=$?
    set -e
    if ((code == 0)); then
        mv "$work/lib$name.so" "$work/$name.version" "$out/"
        echo "$out/lib$name.so: $(cat "$out/$name.version")"
    else
        echo "lab/peers/build.sh: $name failed to build" >&2
        failed=1
    fi
done
exit "$failed"
