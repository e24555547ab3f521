//! The kernel's slab interface for C: `libashlar.so` and `libashlar.a`.
//!
//! Functions have the kernel's names, arguments and promises; where user space cannot keep one
//! (there is no RCU, no DMA zone), the docstring says what happens instead. `include/ashlar.h` is
//! generated from this crate, docstrings included, by `tests/header.rs`; `include/linux/slab.h`
//! stands on it and lets kernel code compile unchanged.
//!
//! * [`flags`]: `gfp_t` and `slab_flags_t`.
//! * [`cache`]: `kmem_cache_*`. [`sheaf`]: prefilled sheaves. [`kmalloc`]: objects of any size.
//!   [`strings`]: copies.
//! * [`numa`]: memory of a given node.
//! * [`figures`]: what is the library's own: options, counters, mode.
//! * `report`: errno, and lines on standard error.
//!
//! No function here is named as one of the C library's: a program keeps its `malloc` and gets slabs
//! beside it. Nothing unwinds into C: a panic is a line on standard error and the end of the
//! program, and no path that a program can reach has one.
#![no_std]
#![expect(non_camel_case_types, reason = "the kernel's names are the interface")]

// What programs load has no standard library in it. Its own tests have one, and where panics unwind
// only that knows how.
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
