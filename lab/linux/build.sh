#!/usr/bin/env bash
# SLAB, SLUB and SLOB of Linux 6.1 itself, as User-Mode Linux kernels that run the lab's tests A, B
# and C when they boot.
#
#   lab/linux/build.sh [NAME...]       names: slab slub slob; all if none is given
#
# Takes the sources from Debian's package linux-source-6.1 (or from the tree or the archive that
# LINUX_SOURCE names). It needs neither root nor the network. The kernels go to target/linux (or
# $CARGO_TARGET_DIR/linux) as linux-NAME, each with its configuration, linux-NAME.config; the
# unpacked sources and objects beside them may be deleted. `ashlar bench
# --systems linux-slab,linux-slub,linux-slob` runs them. Needs cc, make, flex, bison and bc, on
# x86-64. Exit code: 0 done, 1 a build failed, 2 a name that is none, or something is missing here.
set -euo pipefail
cd "$(dirname "$0")/../.."
all=(slab slub slob)
refuse() {
    echo "lab/linux/build.sh: $*" >&2
    exit 2
}
for name in "$@"; do
    [[ " ${all[*]} " == *" $name "* ]] || refuse "$name: expected one of ${all[*]}"
done
(($#)) || set -- "${all[@]}"
[[ $(uname -m) == x86_64 ]] || refuse "the kernels are built on x86_64 only; this is $(uname -m)"
for tool in cc make flex bison bc; do
    command -v "$tool" >/dev/null || refuse "$tool is missing: apt-get install build-essential flex bison bc"
done
given=${LINUX_SOURCE:-/usr/src/linux-source-6.1.tar.xz}
[[ -e $given ]] || refuse "$given is missing: apt-get install linux-source-6.1, or LINUX_SOURCE=<tree or archive>"

out=${CARGO_TARGET_DIR:-target}/linux
mkdir -p "$out"
out=$(cd "$out" && pwd)
jobs=${JOBS:-$(nproc)}
tree=$out/source
log=$out/build.log

# A tree of our own in any case: two lines and the benchmark are added to it.
if [[ ! -e $tree/.complete ]]; then
    rm -rf "$tree"
    mkdir "$tree"
    echo "unpacking $given"
    if [[ -d $given ]]; then
        cp -r "$given/." "$tree/"
    else
        # What User-Mode Linux does not compile is left out, but for the Kconfig files.
        tar xf "$given" -C "$tree" --strip-components=1 --exclude='*/arch/[!xu]*/*.[chS]' \
            --exclude='*/arch/[!xu]*/*.dts*' --exclude='*/sound/*.[ch]' \
            --exclude='*/drivers/gpu/*.[ch]' --exclude='*/drivers/net/*.[ch]' --exclude='*/drivers/media/*.[ch]' \
            --exclude='*/drivers/staging/*.[ch]' --exclude='*/drivers/scsi/*.[ch]' --exclude='*/Documentation/*.rst' \
            --exclude='*/drivers/infiniband/*.[ch]' --exclude='*/tools/testing/*'
    fi
    [[ -e $tree/mm/slob.c && -e $tree/mm/slab.c ]] ||
        refuse "$given: expected Linux 6.1 or older, which has mm/slab.c and mm/slob.c"
    echo 'obj-y += ashlar_bench.o' >>"$tree/mm/Makefile"
    touch "$tree/.complete"
fi
cmp -s lab/linux/ashlar_bench.c "$tree/mm/ashlar_bench.c" || cp lab/linux/ashlar_bench.c "$tree/mm/"

build() {
    local name=$1 objects=$out/build-$1
    mkdir -p "$objects"
    local make=(make -C "$tree" "O=$objects" ARCH=um "-j$jobs")
    "${make[@]}" x86_64_defconfig
    # One allocator, as it is in production: no debugging, no hardening. What the tests never reach
    # stays out too.
    local off=() option
    for option in MODULES NET SMP PREEMPT DEBUG_KERNEL DEBUG_INFO SLUB_DEBUG SLAB_FREELIST_RANDOM SLAB_FREELIST_HARDENED \
        HARDENED_USERCOPY MEMCG CGROUPS INIT_ON_ALLOC_DEFAULT_ON INIT_ON_FREE_DEFAULT_ON \
        PAGE_POISONING SHUFFLE_PAGE_ALLOCATOR KFENCE STACKPROTECTOR FORTIFY_SOURCE FTRACE KALLSYMS SOUND EXT4_FS \
        REISERFS_FS ISO9660_FS AUTOFS_FS QUOTA BLOCK IO_URING INPUT HID \
        SLAB SLUB SLOB GCC_PLUGINS WERROR; do
        off+=(--disable "$option")
    done
    "$tree/scripts/config" --file "$objects/.config" --enable EXPERT "${off[@]}" --enable "${name^^}"
    "${make[@]}" olddefconfig
    if ! grep -qx "CONFIG_${name^^}=y" "$objects/.config"; then
        echo "the configuration did not take CONFIG_${name^^}"
        return 1
    fi
    "${make[@]}" linux
    cp "$objects/linux" "$out/linux-$name.new"
    strip "$out/linux-$name.new"
    cp "$objects/.config" "$out/linux-$name.config"
    mv "$out/linux-$name.new" "$out/linux-$name"
}

failed=0
for name in "$@"; do
    # (In the condition of an `if`, the shell would go on after a command that failed.)
    set +e
    (set -e; build "$name") >"$log" 2>&1
    code=$?
    set -e
    if ((code == 0)); then
        echo "$out/linux-$name"
    else
        tail -n 20 "$log" >&2
        echo "lab/linux/build.sh: $name failed to build; all of it is in $log" >&2
        failed=1
    fi
done
exit "$failed"
