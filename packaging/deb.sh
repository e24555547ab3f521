#!/usr/bin/env bash
# Debian packages from `make install-strip`, split by who needs what. Called by `make deb`, which
# sets VERSION, SOVERSION and OUT, the directory for the packages, and CROSS, the prefix of the
# tools of another machine (CARGO_BUILD_TARGET).
#
#   libashlar0      libashlar.so.0
#   libashlar-dev   headers, archives, links for linkers, pkg-config, CMake, section 3 of the manual
#   ashlar          the tool, the library that it preloads, completions, sections 1 and 7
#
# Plain dpkg-deb, because the Makefile knows already what goes where; dpkg-shlibdeps finds the
# dependencies. It would need the libraries of another machine, so there the symbols tell.
# DEB_REVISION (1) and DEB_MAINTAINER can be set; SOURCE_DATE_EPOCH makes the result the same each
# time.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${VERSION:?call it by make deb}" "${SOVERSION:?}" "${OUT:?}" "${MAKE:=make}"
for tool in dpkg-deb dpkg-shlibdeps dpkg-architecture; do
    command -v "$tool" >/dev/null || { echo "deb: $tool is not installed: apt-get install dpkg-dev" >&2; exit 2; }
done
revision=${DEB_REVISION:-1}
homepage=$(sed -n 's/^homepage = "\(.*\)"/\1/p' Cargo.toml)
maintainer=${DEB_MAINTAINER:-ashlar maintainers <maintainers@ashlar.invalid>}
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date -r CHANGELOG.md +%s)}"
case ${CROSS:=} in
'') host=() ;;
aarch64-linux-gnu-) host=(-a arm64) ;;
*)
    echo "deb: CARGO_BUILD_TARGET=$CARGO_BUILD_TARGET: expected this machine's or aarch64-unknown-linux-gnu" >&2
    exit 2
    ;;
esac
arch=$(dpkg-architecture "${host[@]}" -qDEB_HOST_ARCH)
libdir=usr/lib/$(dpkg-architecture "${host[@]}" -qDEB_HOST_MULTIARCH)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

"$MAKE" --no-print-directory install-strip DESTDIR="$work/all" PREFIX=/usr LIBDIR="/$libdir" \
    ZSHDIR=/usr/share/zsh/vendor-completions >/dev/null

# Manual pages are compressed; a page that only includes another becomes a link to it.
find "$work/all/usr/share/man" -type f | while read -r page; do
    if target=$(sed -n 's|^\.so man[0-9]/||p' "$page") && [[ -n $target ]]; then
        ln -s "$target.gz" "$page.gz"
        rm "$page"
    else
        gzip -9n "$page"
    fi
done
# Licences stand in the file copyright, as in all packages.
rm "$work/all/usr/share/doc/ashlar/"LICENSE-*
sed -i -E 's,\[([^]]*)\]\(LICENSE[^)]*\),\1,g; s,\(CHANGELOG\.md\),(changelog.gz),g' "$work/all/usr/share/doc/ashlar/README.md"
gzip -9n "$work/all/usr/share/doc/ashlar/CHANGELOG.md"
mv "$work/all/usr/share/doc/ashlar/CHANGELOG.md.gz" "$work/all/usr/share/doc/ashlar/changelog.gz"

# take PACKAGE PATH...: moves paths of the installation into the package.
take() {
    local package=$1 path
    shift
    for path in "$@"; do
        mkdir -p "$work/$package/$(dirname "$path")"
        mv "$work/all/$path" "$work/$package/$path"
    done
}
cd "$work/all"
take libashlar0 "$libdir"/libashlar.so."$SOVERSION" "$libdir"/libashlar.so."$VERSION"
take ashlar "$libdir"/libashlar_malloc.so."$SOVERSION" "$libdir"/libashlar_malloc.so."$VERSION"
take libashlar-dev usr/include "$libdir"/*.so "$libdir"/*.a "$libdir"/pkgconfig "$libdir"/cmake usr/share/man/man3
take ashlar usr/bin usr/share/man/man1 usr/share/man/man7 usr/share/bash-completion usr/share/zsh usr/share/fish \
    usr/share/doc/ashlar
if left=$(find . ! -type d | grep .); then
    echo "deb: no package takes these files: $left" >&2
    exit 1
fi

# What every package says about itself.
describe() {
    local package=$1 doc=$work/$1/usr/share/doc/$1
    mkdir -p "$doc" "$work/$package/DEBIAN"
    cat >"$doc/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: ashlar

Files: *
Copyright: (c) the ashlar developers
License: Expat or Apache-2.0
Comment:
 The programs and libraries also hold parts of Rust's standard library and of
 libraries from crates.io. Each of these may be used under one of the two
 licences below, or under terms that ask for less.

License: Expat
$(sed '1,/^Copyright/d; /./!d' "$root/LICENSE-MIT" | sed 's/^/ /; s/^ $/ ./')

License: Apache-2.0
 The whole text is in the file /usr/share/common-licenses/Apache-2.0 of
 Debian systems.
END
    gzip -9n >"$doc/changelog.Debian.gz" <<END
ashlar ($VERSION-$revision) unstable; urgency=medium

  * Built from the sources of this version, by its own packaging.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
END
    if [[ $package != libashlar-dev ]]; then
        printf 'activate-noawait ldconfig\n' >"$work/$package/DEBIAN/triggers"
    fi
}

# by_symbols FILE...: what they need, by the newest version of a symbol of the C library.
by_symbols() {
    local headers needed other newest
    headers=$("${CROSS}objdump" -p "$@")
    needed=$(awk '$1 == "NEEDED" { print $2 }' <<<"$headers" | sort -u)
    other=$(grep -vxE 'lib[cm]\.so\.6|ld-linux-[a-z0-9-]+\.so\.1|libgcc_s\.so\.1|libashlar\.so\.[0-9]+' <<<"$needed" || true)
    [[ -z $other ]] || { echo "deb: which package has $other?" >&2; exit 1; }
    newest=$(grep -oE 'GLIBC_2\.[0-9.]+' <<<"$headers" | sort -uV | tail -n 1)
    echo "libc6 (>= ${newest#GLIBC_})$(grep -qx libgcc_s.so.1 <<<"$needed" && echo ', libgcc-s1 (>= 3.3)')"
}

# depends PACKAGE: what its programs and libraries need of others.
depends() {
    local files
    mapfile -t files < <(find "$work/$1" -type f \( -name '*.so.*' -o -path '*/bin/*' \))
    if [[ -n $CROSS ]]; then
        by_symbols "${files[@]}"
        return
    fi
    (cd "$work/source" && dpkg-shlibdeps -O --ignore-missing-info "${files[@]}" 2>"$work/said" ||
        { cat "$work/said" >&2; exit 1; }) | sed -n 's/^shlibs:Depends=//p'
}

# package NAME SECTION DEPENDS MULTI-ARCH <TEXT: the short description, then the long one.
package() {
    local name=$1 section=$2 depends=$3 multi=$4 short long
    IFS= read -r short
    long=$(sed 's/^$/./; s/^/ /')
    (cd "$work/$name" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    cat >"$work/$name/DEBIAN/control" <<END
Package: $name
Source: ashlar
Version: $VERSION-$revision
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -k -s --apparent-size --exclude=DEBIAN "$work/$name" | cut -f1)
Depends: $depends
Section: $section
Priority: optional
Homepage: $homepage
${multi:+Multi-Arch: $multi
}Description: $short
$long
END
    find "$work/$name" -newermt "@$SOURCE_DATE_EPOCH" -print0 | xargs -0r touch -h -d "@$SOURCE_DATE_EPOCH"
    dpkg-deb --root-owner-group --build "$work/$name" "$out/${name}_${VERSION}-${revision}_$arch.deb"
}

root=$OLDPWD
cd "$root"
mkdir -p "$OUT" "$work/source/debian"
out=$(cd "$OUT" && pwd)
rm -f "$out"/*.deb
printf 'Source: ashlar\n\nPackage: ashlar\nArchitecture: any\n' >"$work/source/debian/control"
for name in libashlar0 libashlar-dev ashlar; do
    describe "$name"
done
echo "libashlar $SOVERSION libashlar0 (>= $VERSION)" >"$work/libashlar0/DEBIAN/shlibs"
echo "libashlar_malloc $SOVERSION ashlar (>= $VERSION)" >"$work/ashlar/DEBIAN/shlibs"
# The library belongs to the tool, which preloads it: its package has the tool's name.
mkdir -p "$work/ashlar/usr/share/lintian/overrides"
echo 'ashlar: package-name-doesnt-match-sonames libashlar-malloc0' >"$work/ashlar/usr/share/lintian/overrides/ashlar"

# Apart, because a command that fails inside an argument would not end the script.
of_library=$(depends libashlar0)
of_tool=$(depends ashlar)
package libashlar0 libs "$of_library" same <<'END'
Linux slab allocators in user space, shared library
Object caches and kmalloc of the Linux kernel for programs, with a fast path
that takes no lock and executes no atomic read-modify-write instruction.

This package has the library that programs written in C and C++ load.
END
package libashlar-dev libdevel "libashlar0 (= $VERSION-$revision), ashlar (= $VERSION-$revision)" '' <<'END'
Linux slab allocators in user space, development files
Object caches and kmalloc of the Linux kernel for programs, with a fast path
that takes no lock and executes no atomic read-modify-write instruction.

This package has headers, static libraries, manual pages, and the files of
pkg-config and CMake. Code written for the kernel finds <linux/slab.h>.
END
package ashlar utils "$of_tool" '' <<'END'
run programs on the Linux slab allocators
The command "ashlar run" starts any dynamically linked program with its malloc
on the slab allocators of the Linux kernel, brought to user space; "ashlar
compare" runs it by turns on them and on the malloc of the system, and says
what it gains.
END
