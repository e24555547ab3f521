#!/usr/bin/env bash
# Builds the library for aarch64, looks at its fast paths, and runs tests under emulation. Says
# SKIPPED and why where a tool is missing.
#
#   ci/aarch64.sh            unit tests and smoke tests by qemu-user, which has no rseq: with locks,
#                            and with the critical sections on one thread (percpu=emulate)
#   ci/aarch64.sh aborts     also aborts each section at each of its instructions; five minutes
#   ci/aarch64.sh kernel     also boots Debian's arm64 kernel in qemu-system with 2 and 4 CPUs, and
#                            runs there the suites that need rseq, and programs on the drop-in
#                            malloc; an hour and more. Needs apt-get and the architecture arm64
#                            (dpkg --add-architecture arm64). What is run is said by CPUS="2 4",
#                            TESTS="modes engines stress drain litmus aborts" and PROGRAMS="*".
#                            PAGES=16k takes Debian's kernel with pages of 16 KiB
#   ci/aarch64.sh protection builds the libraries for machines that enforce branch targets (BTI)
#                            and runs programs on one; with `kernel`, the programs in that kernel
#                            run on these libraries, too
#   ci/aarch64.sh packages   builds the Debian packages for arm64, installs them into an empty root
#                            beside Debian's C library, and runs programs on them by qemu-user
set -euo pipefail
cd "$(dirname "$0")/.."
kernel=no packages=no protection=no aborts=no
for argument; do
    case $argument in
    kernel) kernel=yes ;;
    packages) packages=yes ;;
    protection) protection=yes ;;
    aborts) aborts=yes ;;
    *) echo "ci/aarch64.sh: $argument: expected aborts, kernel, packages or protection" >&2; exit 2 ;;
    esac
done

target=aarch64-unknown-linux-gnu
skipped() {
    echo "SKIPPED: aarch64: $*"
    exit 0
}
command -v rustup >/dev/null || skipped "rustup is not installed"
rustup target list --installed | grep -qx "$target" || timeout 300 rustup target add "$target" >/dev/null 2>&1 ||
    skipped "the target cannot be installed here (rustup target add $target)"
command -v aarch64-linux-gnu-gcc >/dev/null || skipped "there is no aarch64-linux-gnu-gcc"
sysroot=/usr/aarch64-linux-gnu
emulator=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) || skipped "there is no qemu-aarch64"

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$emulator -L $sysroot"
# The build is a part of its own, so that cargo does not build the rest anew.
host_target=${CARGO_TARGET_DIR:-target}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/aarch64
release=$CARGO_TARGET_DIR/$target/release

cargo build --release --target "$target" -p ashlar-malloc -p ashlar-c
# Whether a library has no segment that is written and run, and what the loader writes is read-only
# afterwards.
has_sound_segments() {
    local segments
    segments=$(readelf -lW "$1")
    { ! grep -q ' RWE ' <<<"$segments" && grep -q GNU_RELRO <<<"$segments"; } ||
        { echo "$segments" >&2; echo "aarch64: FAILED: the segments of $1" >&2; return 1; }
}
has_sound_segments "$release/libashlar_malloc.so"
has_sound_segments "$release/libashlar.so"
# fast_path LIBRARY FUNCTION: its instructions from the start to the first `ret`. None of them may
# be exclusive or atomic, a barrier, or a call.
fast_path() {
    local code=$release/$1.code
    [[ $code -nt $release/$1 ]] || aarch64-linux-gnu-objdump -dC --no-show-raw-insn "$release/$1" >"$code"
    awk -v name="<$2>:" 'index($0, name) { on = 1; next } on && $2 == "ret" { print $2; exit } on && NF > 1 { print $2 }' "$code"
}
count_fast_paths() {
    local library function name path count other
    while read -r library function name; do
        path=$(fast_path "$library" "$function")
        count=$(wc -l <<<"$path")
        if ((count < 20 || count > 50)) ||
            grep -E '^(ld|st)[a]?x|^ldar|^stl|^cas|^swp|^ld(add|clr|eor|set)|^dmb|^dsb|^isb|^bl$|^blr$' <<<"$path" >&2; then
            echo "aarch64: FAILED: the fast path of $name has $count instructions, or one that it must not have" >&2
            exit 1
        fi
        other=$(sed -n "s/^ *\([0-9]*\) $name\$/\1/p" crates/ashlar/tests/golden/fast-path.txt)
        printf '%3d %8s %s\n' "$count" "${other:--}" "$name"
    done <<'LIST'
libashlar.so ashlar::faces::kmalloc::entry::aarch64::kmalloc kmalloc
libashlar.so ashlar::faces::kmalloc::entry::aarch64::kfree kfree
libashlar.so ashlar::faces::kmalloc::entry::aarch64::kfree_sized kfree_sized
libashlar_malloc.so malloc malloc
libashlar_malloc.so free free
libashlar.so kmem_cache_alloc kmem_cache_alloc
libashlar.so kmem_cache_free kmem_cache_free
LIST
}
golden=crates/ashlar/tests/golden/fast-path-aarch64.txt
found=$(echo "aarch64, x86-64: instructions from the start to the return, one call"; count_fast_paths)
echo "$found"
if [[ -n ${ASHLAR_UPDATE_GOLDEN:-} ]]; then
    echo "$found" >"$golden"
elif ! diff "$golden" - <<<"$found"; then
    echo "aarch64: FAILED: the fast paths differ from $golden" >&2
    exit 1
fi

cargo test --release --target "$target" -p ashlar-alloc --lib --test smoke
# The sections themselves, on one thread. ASHLAR_TEST_RUNNER has tests start their children by the
# emulator, too.
export ASHLAR_TEST_RUNNER=$CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER
ASHLAR_OPTIONS=percpu=emulate cargo test --release --target "$target" -p ashlar-alloc --test smoke -- --test-threads=1
if [[ $aborts == yes ]]; then
    cargo test --release --target "$target" -p ashlar-alloc --test aborts -- --nocapture
fi

# The heap profile of a program whose sites are known, and a fault that guard sampling finds.
look_inside() {
    local scratch folded bytes
    scratch=$(mktemp -d)
    aarch64-linux-gnu-gcc -O1 -g -w -pthread -o "$scratch/profiled" crates/ashlar-tool/tests/c/profiled.c
    "$emulator" -L "$sysroot" -E LD_PRELOAD="$release/libashlar_malloc.so" -E ASHLAR_OPTIONS=profile=64K \
        -E ASHLAR_PROFILE="$scratch/profile" "$scratch/profiled" sites
    folded=$(CARGO_TARGET_DIR=$host_target cargo run --release -q -p ashlar-tool -- profile "$scratch/profile" --folded)
    bytes=$(awk '/;site_large / { sum += $NF } END { print sum + 0 }' <<<"$folded")
    # The program keeps 500 objects of 150000 bytes; twelve standard deviations.
    ((bytes > 60000000 && bytes < 90000000)) ||
        { echo "aarch64: FAILED: site_large has $bytes bytes by the profile" >&2; return 1; }
    readelf -n "$release/libashlar_malloc.so" | grep -q 'Arguments: 8@x0 8@x1 8@x2' ||
        { echo "aarch64: FAILED: no probe otel_memory:alloc" >&2; return 1; }
    printf '%s\n' '#include <stdlib.h>' '__attribute__((noinline)) void late(volatile char *at) { at[3] = 1; }' \
        'int main(void) { volatile char *at = malloc(100); free((void *)at); late(at); return 0; }' >"$scratch/late.c"
    aarch64-linux-gnu-gcc -O1 -w -rdynamic -funwind-tables -o "$scratch/late" "$scratch/late.c"
    (ulimit -c 0; exec "$emulator" -L "$sysroot" -E LD_PRELOAD="$release/libashlar_malloc.so" \
        -E ASHLAR_OPTIONS=guard=1 "$scratch/late") 2>"$scratch/said" && return 1
    { grep -q 'BUG: KFENCE: use-after-free' "$scratch/said" && grep -q ' in late+0x' "$scratch/said"; } ||
        { cat "$scratch/said" >&2; echo "aarch64: FAILED: the report of a guarded object" >&2; return 1; }
    rm -r "$scratch"
    echo "profile, probes and guard sampling work"
}
look_inside

# Whether each function that LIBRARY exports begins with a landing pad, or signs its return address,
# which is one, too.
has_landing_pads() {
    local library=$1 without
    readelf -n "$library" | grep -q 'AArch64 feature: BTI' ||
        { echo "aarch64: FAILED: $library is not marked for branch targets" >&2; return 1; }
    without=$(aarch64-linux-gnu-objdump -d --no-show-raw-insn "$library" | awk '
        NR == FNR { exported[$1] = 1; next }
        /^[0-9a-f]+ <.*>:$/ { name = substr($2, 2, length($2) - 3); first = name in exported; next }
        first && NF { first = 0; seen++; if ($0 !~ /bti\tc|paciasp/) print name }
        END { if (!seen) print "no function at all" }
    ' <(aarch64-linux-gnu-nm -D --defined-only "$library" | awk '$2 ~ /[TW]/ { print $3 }') -)
    [[ -z $without ]] || { echo "aarch64: FAILED: no landing pad in $library: $without" >&2; return 1; }
}

protected=$CARGO_TARGET_DIR/protected/$target/release
if [[ $protection == yes ]]; then
    [[ -e $(rustc --print sysroot)/lib/rustlib/src/rust/library/core/src/lib.rs ]] ||
        skipped "protection: the sources of Rust's library are not there (rustup component add rust-src)"
    make build-protected CARGO_BUILD_TARGET="$target" BRANCH_PROTECTION=yes CARGO_TARGET_DIR="$CARGO_TARGET_DIR/protected"
    for library in libashlar_malloc.so libashlar.so; do
        has_landing_pads "$protected/$library"
        has_sound_segments "$protected/$library"
    done
    programs=$(mktemp -d)
    trap 'rm -rf "$programs"' EXIT
    # The same library, but its `malloc` begins with something else: a call by address ends there.
    # This shows that the emulator enforces what the library is marked for.
    cp "$protected/libashlar_malloc.so" "$programs/broken.so"
    at=$((16#$(aarch64-linux-gnu-nm -D "$programs/broken.so" | awk '$3 == "malloc" { print $1 }')))
    printf '\x1f\x20\x03\xd5' | dd of="$programs/broken.so" bs=1 seek="$at" conv=notrunc status=none
    run=("$emulator" -cpu max -L "$sysroot")
    for name in threads_pass_blocks realloc_pairs fork_chain vfork_exec align_rules contexts; do
        aarch64-linux-gnu-gcc -O1 -w -fno-builtin -pthread -o "$programs/$name" "tests/behaviour/$name.c"
        timeout 300 "${run[@]}" -E LD_PRELOAD="$protected/libashlar_malloc.so" "$programs/$name" >"$programs/said" 2>&1 ||
            { cat "$programs/said" >&2; echo "aarch64: FAILED: $name with enforced branch targets" >&2; exit 1; }
    done
    # On one thread the critical sections run, too.
    "${run[@]}" -E LD_PRELOAD="$protected/libashlar_malloc.so" -E ASHLAR_OPTIONS=percpu=emulate "$programs/realloc_pairs"
    status=0
    (ulimit -c 0; exec "${run[@]}" -E LD_PRELOAD="$programs/broken.so" "$programs/realloc_pairs") >/dev/null 2>&1 || status=$?
    ((status == 132)) ||
        { echo "aarch64: FAILED: branch targets are not enforced here: a malloc without landing pad ended with $status" >&2; exit 1; }
    echo "branch targets are enforced, and programs run"
fi

# install_packages ROOT: Debian's C library and ours into a directory, which dpkg believes a system.
install_packages() {
    local root=$1 deb base=(libc6:arm64 libgcc-s1:arm64)
    mkdir -p "$root"/{debs,tmp} "$root"/var/lib/dpkg/{info,updates}
    (cd "$root/debs" && apt-get download -qq "${base[@]}" 2>/dev/null) ||
        skipped "packages: no package of an arm64 C library (dpkg --add-architecture arm64; apt-get update)"
    for deb in "$root"/debs/*.deb; do
        dpkg-deb -x "$deb" "$root"
        # Its maintainer scripts would need a whole system of that machine.
        dpkg-deb -f "$deb" Package Version Architecture Multi-Arch Maintainer Description |
            sed '1a Status: install ok installed' >>"$root/var/lib/dpkg/status"
        echo >>"$root/var/lib/dpkg/status"
    done
    dpkg --root="$root" --add-architecture arm64
    dpkg --root="$root" -i "$CARGO_TARGET_DIR"/deb/*.deb
}

if [[ $packages == yes ]]; then
    for tool in make dpkg-deb dpkg apt-get; do
        command -v "$tool" >/dev/null || skipped "packages: there is no $tool"
    done
    make deb CARGO_BUILD_TARGET="$target"
    system=$(mktemp -d)
    trap 'rm -rf "$system"' EXIT
    install_packages "$system"
    libraries=$system/usr/lib/aarch64-linux-gnu
    run=("$emulator" -L "$system")
    # Programs that link with the library by its headers, and one on malloc as it was built.
    for source in program kernel; do
        aarch64-linux-gnu-gcc -O1 -I"$system/usr/include" -I"$system/usr/include/ashlar" -o "$system/tmp/$source" \
            "packaging/tests/$source.c" -L"$libraries" -lashlar
        "${run[@]}" -E LD_LIBRARY_PATH="$libraries" "$system/tmp/$source"
    done
    aarch64-linux-gnu-gcc -O1 -w -pthread -o "$system/tmp/preloaded" tests/behaviour/threads_pass_blocks.c
    "${run[@]}" -E LD_PRELOAD="$libraries/libashlar_malloc.so.0" -E ASHLAR_STATS=text "$system/tmp/preloaded" \
        2>"$system/tmp/said" || { cat "$system/tmp/said" >&2; exit 1; }
    grep -q '^ashlar 0' "$system/tmp/said" ||
        { cat "$system/tmp/said" >&2; echo "aarch64: FAILED: the program did not run on ashlar" >&2; exit 1; }
    "${run[@]}" "$system/usr/bin/ashlar" --version
    echo "packages for arm64: installed, and programs run on them"
fi

[[ $kernel == yes ]] || exit 0
for tool in qemu-system-aarch64 cpio dpkg-deb apt-get; do
    command -v "$tool" >/dev/null || skipped "kernel: there is no $tool"
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
case ${PAGES:-4k} in
4k) image=$(apt-cache depends linux-image-arm64:arm64 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }') ;;
16k) image=$(apt-cache search --names-only '^linux-image-[0-9].*-arm64-16k$' | awk '{ print $1 ":arm64" }' | sort -V | tail -n 1) ;;
*) echo "ci/aarch64.sh: PAGES=$PAGES: expected 4k or 16k" >&2; exit 2 ;;
esac
(cd "$scratch" && apt-get download -qq "${image:-none}" busybox-static:arm64 2>/dev/null) ||
    skipped "kernel: no package of an arm64 kernel with pages of ${PAGES:-4k} (dpkg --add-architecture arm64; apt-get update)"
for package in "$scratch"/*.deb; do dpkg-deb -x "$package" "$scratch/system"; done

read -ra tests <<<"${TESTS-modes engines stress drain litmus aborts}"
((${#tests[@]} == 0)) || cargo test --release --target "$target" -p ashlar-alloc --no-run "${tests[@]/#/--test=}"
mkdir -p "$scratch/guest"/{bin,lib,proc,sys,dev,tmp,usr/bin,tests,programs}
cp "$scratch/system/bin/busybox" "$scratch/guest/bin"
for command in sh mount poweroff timeout cat tail; do ln -s busybox "$scratch/guest/bin/$command"; done
cp "$sysroot"/lib/{ld-linux-aarch64.so.1,libc.so.6,libm.so.6,libpthread.so.0,libdl.so.2,libgcc_s.so.1} "$scratch/guest/lib"
for test in "${tests[@]}"; do
    cp "$(find "$release/deps" -name "$test-*" ! -name '*.d' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2)" \
        "$scratch/guest/tests/$test"
done
if [[ $protection == yes ]]; then
    cp "$protected/libashlar_malloc.so" "$scratch/guest/lib"
else
    cp "$release/libashlar_malloc.so" "$scratch/guest/lib"
fi
# Programs that need other libraries, users or a compiler of the target stay out.
for source in tests/behaviour/*.c; do
    name=$(basename "$source" .c)
    case $name in
    dlopen_* | *_unloaded | *_library | join_large_tls | limit_as_later | credentials | addresses_beside | exit_order | \
        limit_data_threads | limit_memlock) continue ;;
    esac
    # shellcheck disable=SC2053 # A pattern.
    [[ $name == ${PROGRAMS-*} ]] || continue
    aarch64-linux-gnu-gcc -O1 -w -fno-builtin -pthread -rdynamic -o "$scratch/guest/programs/$name" "$source" -ldl -lm
done
cat >"$scratch/guest/init" <<'INIT'
#!/bin/sh
export PATH=/bin LD_LIBRARY_PATH=/lib HOME=/tmp BEHAVIOUR_SECONDS=400
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /tmp
cd /tmp
for test in /tests/*; do [ ! -e $test ] || $test --test-threads=1; done
for program in /programs/*; do
    [ -e $program ] || continue
    LD_PRELOAD=/lib/libashlar_malloc.so $program >/tmp/out 2>&1
    status=$?
    case $status in
    0 | 77) echo "program ${program##*/}: ok" ;;
    *) echo "program ${program##*/}: FAILED $status: $(tail -n 2 /tmp/out)" ;;
    esac
done
echo "all has run"
poweroff -f
INIT
chmod +x "$scratch/guest/init"
(cd "$scratch/guest" && find . | cpio -o -H newc --quiet | gzip -1) >"$scratch/guest.gz"
failed=0
for cpus in ${CPUS:-2 4}; do
    echo "Debian's arm64 kernel ($image), $cpus CPUs:"
    timeout 5400 qemu-system-aarch64 -M virt -cpu max -smp "$cpus" -m 3072 -nographic -no-reboot \
        -kernel "$scratch"/system/boot/vmlinuz-* -initrd "$scratch/guest.gz" \
        -append "console=ttyAMA0 quiet panic=-1 transparent_hugepage=madvise" </dev/null | tee "$scratch/log"
    if ! grep -q "all has run" "$scratch/log" || grep -qE "FAILED" "$scratch/log"; then failed=1; fi
done
exit "$failed"
