//! Drop-in malloc: `libashlar_malloc.so` for `LD_PRELOAD` and `-lashlar_malloc`, and
//! `libashlar_malloc.a`.
//!
//! It exports C's names, so a program that links this library gets *all* its memory from ashlar. A
//! Rust program that needs ashlar only for its own code uses `ashlar::Ashlar` as its global
//! allocator, without this crate.
//!
//! * [`family`]: `malloc` and its relatives, with the argument, `errno` and size rules of glibc's
//!   manual.
//! * [`cxx`]: operators new and delete (on x86-64; elsewhere the C++ library's own, which call
//!   `malloc`). If a program replaces some, the other forms call the replacements, as the standard
//!   requires.
//! * [`deepbind`]: `dlopen` without `RTLD_DEEPBIND`.
//! * [`mallopt`]: returns what glibc returns, and changes nothing.
//! * [`threads`]: `pthread_create`, which counts the program's threads, and starts and ends the
//!   background thread.
//! * `process`: the work at load, fork and exit; `vfork`: the C library's, made safe for rseq
//!   critical sections.
//! * `apart`: drops the pages of code and tables that only start-up used.
//! * [`mod@profile`]: the heap profile, as `ASHLAR_PROFILE` and C programs ask for it.
//! * [`figures`]: `mallinfo2`, `malloc_info`, `malloc_stats`.
//!
//! ## Where it works
//! The library works from the first constructor of a program to its last destructor, in all its
//! threads, in resolvers of the program's IFUNC symbols, and in children of fork and `vfork`. There
//! are three limits:
//! * A resolver in a *shared library* that is bound at load (`-z now`) may run before this library
//!   is relocated, and must not allocate then. In a static program no resolver may allocate,
//!   because there is no thread pointer yet; glibc's `malloc` fails there as well.
//! * A child created by the bare `clone` system call may allocate only if the parent had one
//!   thread, as with glibc. It may not if it shares the parent's memory (`CLONE_VM`) and thread
//!   pointer.
//! * A signal handler that allocates, which POSIX forbids, is safe if it interrupts a fast path. It
//!   may deadlock if it interrupts a slow path.
//!
//! `docs/process.md` describes the library's effects on a process: threads, signals, mappings,
//! files, system calls (for seccomp filters), exported names and environment variables. The test
//! `process_page` compares that page with the library.
//!
//! No code here allocates from the library itself, and none unwinds. The profile aborts on panic,
//! and no path that a program can reach contains a panic. A panic by a bug prints its place on
//! standard error.
#![no_std]

// The library that programs load does not contain the standard library. Its own tests do, because
// only the standard library can unwind panics.
#[cfg(any(test, not(panic = "abort")))]
extern crate std;

// `#[place(…)]`, which places functions and tables in parts of the library.
#[macro_use]
extern crate ashlar_macros;

#[cfg(all(panic = "abort", not(test)))]
ashlar::panic_handler!();

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod apart;
#[cfg(target_arch = "x86_64")]
pub mod cxx;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod deepbind;
pub mod family;
pub mod figures;
mod fork_handlers;
pub mod mallopt;
mod process;
pub mod profile;
mod text;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod thread_count;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod threads;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod vfork;
