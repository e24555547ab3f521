#!/usr/bin/env bash
# Installation and packages, as their users meet them: what `make install` puts into an empty
# directory works, from C and C++, by pkg-config, by CMake, statically, from any place; `make
# uninstall` takes all of it away again; the Debian packages hold what they should.
#
#   ci/package.sh [--install-deb]
#
# --install-deb  install the packages on this machine, check them, purge them (the default for root
#                where CI is set)
#
# What the machine lacks is skipped, and said. Exit code 0 exactly if nothing failed.
set -euo pipefail
cd "$(dirname "$0")/.."
install_deb=no
((EUID == 0)) && [[ -n ${CI:-} ]] && install_deb=yes
for argument; do
    case $argument in
    --install-deb) install_deb=yes ;;
    *) echo "ci/package.sh: $argument: expected --install-deb" >&2; exit 2 ;;
    esac
done
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() {
    echo "package: FAILED: $*" >&2
    failed=1
}
has() {
    command -v "$1" >/dev/null 2>&1
}
quietly() {
    "$@" >"$work/said" 2>&1 || { cat "$work/said" >&2; return 1; }
}

make build

# Built by themselves, without the features that other packages of the workspace ask for.
for library in libashlar libashlar_malloc; do
    readelf -dW "$CARGO_TARGET_DIR/release/$library.so" | grep -q 'NEEDED.*\[libc\.' || fail "$library.so names no C library"
done

echo "--- manual pages and completions"
for page in man/*; do
    if has mandoc; then quietly mandoc -T lint -W warning "$page" || fail "mandoc: $page"; else echo "SKIPPED: no mandoc"; fi
    if has groff; then
        said=$(groff -mdoc -ww -T utf8 -z "$page" 2>&1) || true
        [[ -z $said ]] || fail "groff: $page: $said"
    else
        echo "SKIPPED: no groff"
    fi
done
completions=$(bash -c '. packaging/completions/ashlar.bash; COMP_WORDS=(ashlar run --st) COMP_CWORD=2
    _ashlar ashlar --st run; echo "${COMPREPLY[*]}"' 2>&1)
[[ $completions == --stats ]] || fail "bash completes \`ashlar run --st\` to: $completions"
completions=$(bash -c '. packaging/completions/ashlar-lab.bash; COMP_WORDS=(ashlar-lab hackbench --gr) COMP_CWORD=2
    _ashlar__lab ashlar-lab --gr hackbench; echo "${COMPREPLY[*]}"' 2>&1)
[[ $completions == --groups ]] || fail "bash completes \`ashlar-lab hackbench --gr\` to: $completions"
for shell in zsh:_ashlar zsh:_ashlar-lab fish:ashlar.fish fish:ashlar-lab.fish; do
    if has "${shell%:*}"; then
        quietly "${shell%:*}" -n "packaging/completions/${shell#*:}" || fail "completions of ${shell%:*}"
    else
        echo "SKIPPED: completions of ${shell%:*}: it is not installed"
    fi
done

echo "--- libraries that an archive needs"
told=$(cargo rustc -q --release -p ashlar-c --lib -- --print native-static-libs 2>&1 | sed -n 's/.*native-static-libs: //p' | tail -n 1)
wanted=$(tr ' ' '\n' <<<"$told" | grep -vxE -e '-lc|-lgcc_s|' | sort -u | xargs)
written=$(sed -n 's/^PRIVATE_LIBS := //p' Makefile | tr ' ' '\n' | sort -u | xargs)
[[ -n $told && $wanted == "$written" ]] || fail "PRIVATE_LIBS of the Makefile: \"$written\", the compiler says \"$told\""

# installed NAME VARIABLE=VALUE...: installs, checks, uninstalls.
installed() {
    local name=$1 dest=$work/$1 left
    shift
    echo "--- $name: $*"
    quietly make install"${strip:-}" DESTDIR="$dest" "$@" || { fail "$name: install"; return; }
    make --no-print-directory -s check-install DESTDIR="$dest" "$@" || fail "$name: check-install"
    # The lab, which the installed tool finds and which finds its workloads. An earlier step of
    # .ci/run has built it.
    if quietly make install-lab DESTDIR="$dest" "$@"; then
        quietly "$(find "$dest" -path '*/bin/ashlar')" bench programs --workloads trees --systems glibc,ashlar --rounds 1 \
            --scale 0.01 || fail "$name: the installed lab"
    else
        fail "$name: install-lab"
    fi
    # Once more over it, as an update does.
    quietly make install DESTDIR="$dest" "$@" || fail "$name: second install"
    quietly make uninstall DESTDIR="$dest" "$@" || fail "$name: uninstall"
    left=$(find "$dest" ! -type d; find "$dest/" -name '*ashlar*')
    [[ -z $left ]] || fail "$name: uninstall leaves $left"
}
installed local
strip=-strip installed multiarch PREFIX=/usr LIBDIR="/usr/lib/$(uname -m)-linux-gnu"
installed odd PREFIX=/opt/own LIBDIR=/opt/own/lib64 INCLUDEDIR=/opt/headers MANDIR=/opt/man

echo "--- what must fail"
if make -n install PREFIX=relative >"$work/said" 2>&1 || ! grep -q 'PREFIX=relative: expected an absolute path' "$work/said"; then
    fail "a relative PREFIX is taken"
fi
quietly make install DESTDIR="$work/broken" || fail "install"
rm "$work/broken/usr/local/lib/libashlar.so.0"
if make -s check-install DESTDIR="$work/broken" >"$work/said" 2>&1 || ! grep -q 'FAILED: files of libashlar:' "$work/said"; then
    fail "check-install does not miss libashlar.so.0"
fi

echo "--- Debian packages"
if ! has dpkg-deb || ! has dpkg-shlibdeps; then
    echo "SKIPPED: Debian packages: dpkg-dev is not installed"
    exit "$failed"
fi
quietly make deb || { fail "make deb"; exit 1; }
debs=("$CARGO_TARGET_DIR"/deb/*.deb)
# holds PACKAGE PATTERN...: each must be the end of a path in the package.
holds() {
    local package=$1 pattern list
    shift
    list=$(dpkg-deb -c "$CARGO_TARGET_DIR"/deb/"$package"_*.deb | awk '{ print $6 }')
    for pattern; do
        grep -qE "$pattern\$" <<<"$list" || fail "$package holds no $pattern"
    done
}
((${#debs[@]} == 3)) || fail "packages: ${debs[*]}"
holds libashlar0 '/libashlar\.so\.0' '/libashlar\.so\.[0-9.]+' /libashlar0/copyright
holds libashlar-dev /usr/include/ashlar.h /ashlar/linux/slab.h '/libashlar\.so' '/libashlar\.a' /libashlar_malloc.a \
    /pkgconfig/ashlar.pc /cmake/ashlar/ashlarConfig.cmake /man3/libashlar.3.gz /man3/kmalloc.3.gz
holds ashlar /usr/bin/ashlar '/libashlar_malloc\.so\.0' /man1/ashlar.1.gz /man7/ashlar.7.gz /completions/ashlar
for package in libashlar0 ashlar; do
    depends=$(dpkg-deb -f "$CARGO_TARGET_DIR"/deb/"$package"_*.deb Depends)
    [[ $depends == *'libc6 (>= '* ]] || fail "$package depends on \"$depends\", not on libc6"
done
first=$(md5sum "${debs[@]}")
quietly make deb || fail "make deb again"
[[ $first == "$(md5sum "${debs[@]}")" ]] || fail "the packages differ from one build to the next"
if has lintian; then
    lintian --allow-root --fail-on error "${debs[@]}" || fail "lintian"
else
    echo "SKIPPED: lintian is not installed"
fi

if [[ $install_deb == no ]]; then
    echo "SKIPPED: installing the packages: --install-deb does"
elif dpkg -s ashlar libashlar0 libashlar-dev >/dev/null 2>&1; then
    echo "SKIPPED: installing the packages: they are installed already"
else
    multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
    apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -y)
    mapfile -t paths < <(realpath "${debs[@]}")
    if quietly "${apt[@]}" install --no-install-recommends "${paths[@]}"; then
        [[ $(ashlar run --stats=json -- true 2>&1) == *'"mode":'* ]] || fail "ashlar run of the package"
        make --no-print-directory -s check-install PREFIX=/usr LIBDIR="/usr/lib/$multiarch" || fail "check-install of the packages"
    else
        fail "installation of the packages"
    fi
    quietly "${apt[@]}" purge ashlar libashlar0 libashlar-dev || fail "purge"
    left=$(find /usr/bin /usr/lib /usr/include /usr/share -name '*ashlar*' 2>/dev/null || true)
    [[ -z $left ]] || fail "purge leaves $left"
fi
((failed)) || echo "package: all passed"
exit "$failed"
