//! The kernel's slab interface for C: `libashlar.so` and `libashlar.a`.
//!
//! Functions have the kernel's names, arguments and contracts. Where user space cannot keep one
//! (there is no RCU and no DMA zone), the doc comment describes the behaviour. `tests/header.rs`
//! generates `include/ashlar.h` from this crate, with its doc comments. `include/linux/slab.h`
//! includes it and lets kernel code compile unchanged.
//!
//! * [`flags`]: `gfp_t` and `slab_flags_t`.
//! * [`cache`]: `kmem_cache_*`. [`sheaf`]: prefilled sheaves. [`kmalloc`]: objects of any size.
//!   [`strings`]: copies.
//! * [`numa`]: memory of a given node.
//! * [`figures`]: the library's own functions for options, counters and mode.
//! * `report`: errno, and lines on standard error.
//!
//! No function here has the name of one of the C library's, so a program keeps its `malloc` and
//! gets slabs beside it. No panic unwinds into C. A panic would print a line on standard error and
//! end the program, and no path that a program can reach contains one.
#![no_std]
#![expect(non_camel_case_types, reason = "the kernel's names are the interface")]

// The library that programs load does not contain the standard library. Its own tests do, because
// only the standard library can unwind panics.
#[cfg(any(test, not(panic = "abort")))]
extern crate std;

#[cfg(all(panic = "abort", not(test)))]
core_ashlar::panic_handler!();

pub mod cache;
pub mod figures;
pub mod flags;
pub mod kmalloc;
pub mod numa;
mod report;
pub mod sheaf;
pub mod strings;
