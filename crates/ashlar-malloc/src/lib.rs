//! Drop-in malloc: `libashlar_malloc.so` for `LD_PRELOAD` and `-lashlar_malloc`, and
//! `libashlar_malloc.a`.
//!
//! Every name here is C's, exported as such: a program that links this library gets *all* its
//! memory from ashlar. A Rust program that wants ashlar for itself alone uses `ashlar::Ashlar` as
//! its global allocator and leaves this crate out.
//!
//! * [`family`]: `malloc` and its relatives, with the argument, `errno` and size rules of glibc's
//!   manual.
//! * [`cxx`]: operators new and delete (x86-64; elsewhere the C++ library's own, which call
//!   `malloc`). A program that replaces some finds them called by the other forms, as the standard
//!   says.
//! * [`deepbind`]: `dlopen` without `RTLD_DEEPBIND` (x86-64).
//! * [`mallopt`]: answers as glibc's, and changes nothing.
//! * [`threads`]: `pthread_create`, which counts the program's threads; the background thread is
//!   made and ended by it (x86-64).
//! * `process`: what happens at load, fork and exit; `vfork`: the C library's, made safe for
//!   critical sections.
//! * `apart`: drops the pages of code and tables that only start-up used (x86-64).
//! * [`figures`]: `mallinfo2`, `malloc_info`, `malloc_stats`, and the table of `ASHLAR_STATS`.
//!
//! ## Where it works
//! From the first constructor of a program to its last destructor, in threads that go on meanwhile,
//! in resolvers of IFUNC symbols of a program, and in children of fork and `vfork`. Three limits:
//! * A resolver in a *shared library* that is bound at load (`-z now`) may run before this library
//!   is relocated, and must not allocate then. In a static program no resolver may: there is no
//!   thread pointer yet, and glibc's `malloc` fails as well.
//! * A child made by the bare `clone` system call allocates safely if the parent had one thread, as
//!   with glibc, and not with `CLONE_VM` on the parent's thread pointer.
//! * A signal handler that allocates, which POSIX does not allow, is safe while it interrupts a
//!   fast path, and may wait for ever if it interrupts a slow one.
//!
//! `docs/process.md` describes what the library does to a process: threads, signals, mappings,
//! files, all system calls for programs that lock themselves in, exported names, environment
//! variables. The test `process_page` compares that page with the library.
//!
//! Nothing here allocates from itself, and nothing unwinds: the profile aborts on panic, and there
//! is no code that panics on a path that a program can reach. If one does all the same, a line on
//! standard error says where.
#![no_std]

// What programs load has no standard library in it. Its own tests have one, and where panics unwind
// only that knows how.
#[cfg(any(test, not(panic = "abort")))]
extern crate std;

// `#[place(…)]`, by which functions and tables say in which part of the library they lie.
#[macro_use]
extern crate ashlar_macros;

#[cfg(all(panic = "abort", not(test)))]
ashlar::panic_handler!();

#[cfg(target_arch = "x86_64")]
mod apart;
#[cfg(target_arch = "x86_64")]
pub mod cxx;
#[cfg(target_arch = "x86_64")]
pub mod deepbind;
pub mod family;
pub mod figures;
mod fork_handlers;
pub mod mallopt;
mod process;
mod text;
#[cfg(target_arch = "x86_64")]
mod thread_count;
#[cfg(target_arch = "x86_64")]
pub mod threads;
#[cfg(target_arch = "x86_64")]
pub mod vfork;
