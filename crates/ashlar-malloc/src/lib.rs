//! Drop-in malloc: `libashlar_malloc.so` for `LD_PRELOAD` and `-lashlar_malloc`, and `libashlar_malloc.a`.
//!
//! Every name here is C's, exported as such: a program that links this crate, also as a Rust library, gets *all* its
//! memory from ashlar. A Rust program that wants ashlar for itself alone uses `ashlar::Ashlar` as its global
//! allocator and leaves this crate out.
//!
//! * [`family`]: `malloc` and its relatives, with the argument, `errno` and size rules of glibc's manual.
//! * [`cxx`]: operators new and delete (x86-64; elsewhere the C++ library's own, which call `malloc`).
//! * `process`: what happens at load, fork and exit.
//! * [`figures`]: `mallinfo2`, `malloc_info`, `malloc_stats`, and the table of `ASHLAR_STATS`.
//!
//! Nothing here allocates from itself, and nothing unwinds: the profile aborts on panic, and there is no code that
//! panics on a path that a program can reach. The standard library is linked for its panic handler alone.
#![no_std]

extern crate std;

#[cfg(target_arch = "x86_64")]
pub mod cxx;
pub mod family;
pub mod figures;
mod process;
mod text;
