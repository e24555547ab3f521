# Builds with Cargo and installs where C programs and their build systems look.
#
#   make                          release builds of the libraries and of the tool
#   make install                  into /usr/local; PREFIX, DESTDIR, LIBDIR and others can be set
#   make install-strip            the same without symbols that only debuggers read
#   make install-lab              the lab and its workloads, with manual page and completions
#   make uninstall                with the same variables: removes what both install
#   make check-install            with the same variables: builds programs on what is installed
#   make deb                      three Debian packages in target/deb (needs dpkg-dev)
#
# For another machine, beside any of them: CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu. It needs
# that target of Rust (rustup target add) and its compiler for C (gcc-aarch64-linux-gnu).
#
# BRANCH_PROTECTION=yes beside CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu: libraries for machines
# that enforce branch targets (BTI) and sign return addresses (PAC). It needs the sources of Rust's
# library (rustup component add rust-src), and options of the compiler that are not stable yet.
#
# install and install-lab build only what was never built, so that they can run as root after `make`
# by another user.

PREFIX ?= /usr/local
DESTDIR ?=
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
DOCDIR ?= $(DATADIR)/doc/ashlar
PKGCONFIGDIR ?= $(LIBDIR)/pkgconfig
CMAKEDIR ?= $(LIBDIR)/cmake/ashlar
BASHDIR ?= $(DATADIR)/bash-completion/completions
ZSHDIR ?= $(DATADIR)/zsh/site-functions
FISHDIR ?= $(DATADIR)/fish/vendor_completions.d

# They are written into pkg-config files, so a relative one would mean another place for every
# reader.
$(foreach name,PREFIX BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR DOCDIR PKGCONFIGDIR CMAKEDIR BASHDIR ZSHDIR FISHDIR,\
	$(if $(filter /%,$($(name))),,$(error $(name)=$($(name)): expected an absolute path)))

CARGO ?= cargo
CARGOFLAGS ?=
CARGO_TARGET_DIR ?= target
# 1: the lab has the other allocators in it, which needs compilers for C and C++, and cmake.
PEERS ?= 0
INSTALL ?= install
# Before the names of another machine's compiler and binutils; nothing for this one.
MACHINE := $(firstword $(subst -, ,$(CARGO_BUILD_TARGET)))
CROSS ?= $(if $(filter-out $(shell uname -m),$(MACHINE)),$(subst -unknown-,-,$(CARGO_BUILD_TARGET))-)
STRIP ?= $(CROSS)strip
ifneq ($(CROSS),)
LINKER := CARGO_TARGET_$(shell echo '$(CARGO_BUILD_TARGET)' | tr a-z- A-Z_)_LINKER
$(LINKER) ?= $(CROSS)gcc
export CARGO_BUILD_TARGET $(LINKER)
endif

BRANCH_PROTECTION ?= no
ifeq ($(filter yes no,$(BRANCH_PROTECTION)),)
$(error BRANCH_PROTECTION=$(BRANCH_PROTECTION): expected yes or no)
endif
ifeq ($(BRANCH_PROTECTION),yes)
ifneq ($(MACHINE),aarch64)
$(error BRANCH_PROTECTION=yes: expected CARGO_BUILD_TARGET=aarch64-unknown-linux-gnu beside it)
endif
endif
# What builds libraries with it.
PROTECTED := RUSTC_BOOTSTRAP=1 RUSTFLAGS="$(RUSTFLAGS) -Zbranch-protection=bti,pac-ret --cfg ashlar_bti"

VERSION := $(shell sed -n 's/^version = "\([^"]*\)"/\1/p' Cargo.toml | head -n 1)
# The number in the names that programs ask for; crates/ashlar-c/build.rs and
# crates/ashlar-malloc/build.rs write it.
SOVERSION := 0
# What a program needs beside libashlar.a, without what a compiler adds by itself (-lc): the answer
# of `cargo rustc --release --print native-static-libs`, which ci/package.sh asks again.
PRIVATE_LIBS := -lrt -lpthread -lm

# Cargo's own variable for another machine puts everything one directory deeper.
BUILT := $(CARGO_TARGET_DIR)$(if $(CARGO_BUILD_TARGET),/$(CARGO_BUILD_TARGET))/release
ARTEFACTS := $(addprefix $(BUILT)/,ashlar libashlar.so libashlar.a libashlar_malloc.so libashlar_malloc.a)
LAB_ARTEFACTS := $(addprefix $(BUILT)/,ashlar-lab ashlar-workload)
FEATURES := $(if $(filter 1,$(PEERS)),,--no-default-features)

LINUX_HEADERS := $(notdir $(wildcard include/linux/*.h))
# Every function of the C interface has its page under its own name, as the C library's have.
parenthesis := (
FUNCTIONS := $(shell sed -n 's/^[a-z][a-z_ *]*[ *]\([a-z_]*\)$(parenthesis).*/\1/p' include/ashlar.h)
MODULES := ashlar ashlar-linux ashlar-malloc
DOCUMENTS := README.md CHANGELOG.md SAFETY.md LICENSE-MIT LICENSE-APACHE
PAGES := $(wildcard docs/*.md docs/*.svg)
# Links to what is not installed become plain text.
UNLINK := sed -z -E 's,\[([^]]*)\]\((\.\./)*(crates|include|lab|man|packaging|CONTRIBUTING)[^)]*\),\1,g'

# Set by install-strip: what to remove from shared files, and from archives.
STRIP_SHARED :=
STRIP_ARCHIVE :=
to = $(DESTDIR)$(1)

# Texts that name directories. Everything below PREFIX is written relative to it, so that a tree can
# be moved.
below_prefix = $(patsubst $(PREFIX)/%,$${prefix}/%,$(1))
cmake_path = $(shell realpath -m --relative-to='$(CMAKEDIR)' '$(1)')
SUBSTITUTE := sed \
	-e 's|@PREFIX@|$(PREFIX)|g' \
	-e 's|@LIBDIR@|$(call below_prefix,$(LIBDIR))|g' \
	-e 's|@INCLUDEDIR@|$(call below_prefix,$(INCLUDEDIR))|g' \
	-e 's|@CMAKE_LIBDIR@|$(call cmake_path,$(LIBDIR))|g' \
	-e 's|@CMAKE_INCLUDEDIR@|$(call cmake_path,$(INCLUDEDIR))|g' \
	-e 's|@CMAKE_PRIVATE_LIBS@|$(patsubst -l%,%,$(PRIVATE_LIBS))|g' \
	-e 's|@PRIVATE_LIBS@|$(PRIVATE_LIBS)|g' \
	-e 's|@SOVERSION@|$(SOVERSION)|g' \
	-e 's|@VERSION@|$(VERSION)|g'

.PHONY: all build build-protected build-lab install install-lab install-strip uninstall check-install deb clean help
.DELETE_ON_ERROR:

all: build

build-protected:
	$(PROTECTED) $(CARGO) build --release -Zbuild-std=core,panic_abort $(CARGOFLAGS) -p ashlar-c -p ashlar-malloc

ifeq ($(BRANCH_PROTECTION),yes)
build: build-protected
	$(CARGO) build --release $(CARGOFLAGS) -p ashlar-tool
else
build:
	$(CARGO) build --release $(CARGOFLAGS) -p ashlar-c -p ashlar-malloc -p ashlar-tool
endif

build-lab:
	$(CARGO) build --release $(CARGOFLAGS) $(FEATURES) -p ashlar-lab -p ashlar-workload

# Without prerequisites: an artefact that exists is taken as it is.
$(ARTEFACTS) &:
	$(MAKE) build

$(LAB_ARTEFACTS) &:
	$(MAKE) build-lab

install: $(ARTEFACTS)
	$(INSTALL) -d $(call to,$(BINDIR)) $(call to,$(LIBDIR)) $(call to,$(INCLUDEDIR)/ashlar/linux) \
		$(call to,$(PKGCONFIGDIR)) $(call to,$(CMAKEDIR)) $(call to,$(DOCDIR)) \
		$(call to,$(MANDIR)/man1) $(call to,$(MANDIR)/man3) $(call to,$(MANDIR)/man7) \
		$(call to,$(BASHDIR)) $(call to,$(ZSHDIR)) $(call to,$(FISHDIR))
	$(INSTALL) -m 755 $(BUILT)/ashlar $(call to,$(BINDIR))/ashlar
	$(if $(STRIP_SHARED),$(STRIP_SHARED) $(call to,$(BINDIR))/ashlar)
	set -e; for name in libashlar libashlar_malloc; do \
		file=$(call to,$(LIBDIR))/$$name; \
		$(INSTALL) -m 644 $(BUILT)/$$name.so $$file.so.$(VERSION); \
		$(if $(STRIP_SHARED),$(STRIP_SHARED) $$file.so.$(VERSION);) \
		ln -sf $$name.so.$(VERSION) $$file.so.$(SOVERSION); \
		ln -sf $$name.so.$(SOVERSION) $$file.so; \
		$(INSTALL) -m 644 $(BUILT)/$$name.a $$file.a; \
		$(if $(STRIP_ARCHIVE),$(STRIP_ARCHIVE) $$file.a;) \
	done
	$(INSTALL) -m 644 include/ashlar.h $(call to,$(INCLUDEDIR))/ashlar.h
	$(INSTALL) -m 644 $(addprefix include/linux/,$(LINUX_HEADERS)) $(call to,$(INCLUDEDIR))/ashlar/linux/
	set -e; for name in $(MODULES); do \
		$(SUBSTITUTE) packaging/$$name.pc.in >$(call to,$(PKGCONFIGDIR))/$$name.pc; \
		chmod 644 $(call to,$(PKGCONFIGDIR))/$$name.pc; \
	done
	set -e; for name in ashlarConfig ashlarConfigVersion; do \
		$(SUBSTITUTE) packaging/$$name.cmake.in >$(call to,$(CMAKEDIR))/$$name.cmake; \
		chmod 644 $(call to,$(CMAKEDIR))/$$name.cmake; \
	done
	$(INSTALL) -m 644 man/ashlar.1 $(call to,$(MANDIR))/man1/ashlar.1
	$(INSTALL) -m 644 man/libashlar.3 $(call to,$(MANDIR))/man3/libashlar.3
	$(INSTALL) -m 644 man/ashlar.7 $(call to,$(MANDIR))/man7/ashlar.7
	set -e; for name in $(FUNCTIONS); do \
		echo '.so man3/libashlar.3' >$(call to,$(MANDIR))/man3/$$name.3; \
		chmod 644 $(call to,$(MANDIR))/man3/$$name.3; \
	done
	$(INSTALL) -m 644 packaging/completions/ashlar.bash $(call to,$(BASHDIR))/ashlar
	$(INSTALL) -m 644 packaging/completions/_ashlar $(call to,$(ZSHDIR))/_ashlar
	$(INSTALL) -m 644 packaging/completions/ashlar.fish $(call to,$(FISHDIR))/ashlar.fish
	set -e; mkdir -p $(call to,$(DOCDIR))/docs; for name in $(DOCUMENTS) $(PAGES); do \
		$(UNLINK) $$name >$(call to,$(DOCDIR))/$$name; chmod 644 $(call to,$(DOCDIR))/$$name; \
	done

# The tool looks for the lab beside itself, and the lab for its workloads.
install-lab: $(LAB_ARTEFACTS)
	$(INSTALL) -d $(call to,$(BINDIR)) $(call to,$(MANDIR)/man1) \
		$(call to,$(BASHDIR)) $(call to,$(ZSHDIR)) $(call to,$(FISHDIR))
	$(INSTALL) -m 755 $(LAB_ARTEFACTS) $(call to,$(BINDIR))/
	$(INSTALL) -m 644 man/ashlar-lab.1 $(call to,$(MANDIR))/man1/ashlar-lab.1
	$(INSTALL) -m 644 packaging/completions/ashlar-lab.bash $(call to,$(BASHDIR))/ashlar-lab
	$(INSTALL) -m 644 packaging/completions/_ashlar-lab $(call to,$(ZSHDIR))/_ashlar-lab
	$(INSTALL) -m 644 packaging/completions/ashlar-lab.fish $(call to,$(FISHDIR))/ashlar-lab.fish

install-strip:
	$(MAKE) install STRIP_SHARED='$(STRIP) --strip-unneeded' STRIP_ARCHIVE='$(STRIP) --strip-debug'

# Directories go only if they are the project's own; those that others share stay.
uninstall:
	rm -f $(addprefix $(call to,$(BINDIR))/,ashlar ashlar-lab ashlar-workload)
	rm -f $(foreach name,libashlar libashlar_malloc,$(addprefix $(call to,$(LIBDIR))/$(name),\
		.so .so.$(SOVERSION) .so.$(VERSION) .a))
	rm -f $(call to,$(INCLUDEDIR))/ashlar.h $(addprefix $(call to,$(INCLUDEDIR))/ashlar/linux/,$(LINUX_HEADERS))
	rm -f $(addsuffix .pc,$(addprefix $(call to,$(PKGCONFIGDIR))/,$(MODULES)))
	rm -f $(addprefix $(call to,$(CMAKEDIR))/,ashlarConfig.cmake ashlarConfigVersion.cmake)
	rm -f $(addprefix $(call to,$(MANDIR))/man1/,ashlar.1 ashlar-lab.1) $(call to,$(MANDIR))/man7/ashlar.7
	rm -f $(addsuffix .3,$(addprefix $(call to,$(MANDIR))/man3/,libashlar $(FUNCTIONS)))
	rm -f $(addprefix $(call to,$(BASHDIR))/,ashlar ashlar-lab)
	rm -f $(addprefix $(call to,$(ZSHDIR))/,_ashlar _ashlar-lab)
	rm -f $(addprefix $(call to,$(FISHDIR))/,ashlar.fish ashlar-lab.fish)
	rm -f $(addprefix $(call to,$(DOCDIR))/,$(DOCUMENTS) $(PAGES))
	for dir in $(INCLUDEDIR)/ashlar/linux $(INCLUDEDIR)/ashlar $(CMAKEDIR) $(DOCDIR)/docs $(DOCDIR); do \
		[ ! -d $(DESTDIR)$$dir ] || rmdir $(DESTDIR)$$dir; \
	done

check-install:
	DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' BINDIR='$(BINDIR)' LIBDIR='$(LIBDIR)' INCLUDEDIR='$(INCLUDEDIR)' \
		MANDIR='$(MANDIR)' DOCDIR='$(DOCDIR)' PKGCONFIGDIR='$(PKGCONFIGDIR)' CMAKEDIR='$(CMAKEDIR)' VERSION='$(VERSION)' \
		packaging/check-install.sh

deb: $(ARTEFACTS)
	VERSION='$(VERSION)' SOVERSION='$(SOVERSION)' OUT='$(CARGO_TARGET_DIR)/deb' MAKE='$(MAKE)' CROSS='$(CROSS)' packaging/deb.sh

clean:
	$(CARGO) clean

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile
