//! `mallopt`: returns what glibc returns, and changes nothing.
//!
//! Programs set limits of glibc's malloc at their start, and some end if that fails. Here each
//! limit either holds anyway or has no meaning:
//!
//! | key | here |
//! |---|---|
//! | `M_ARENA_MAX` `M_ARENA_TEST` | kept, whatever the limit is: there are no arenas |
//! | `M_TRIM_THRESHOLD` `M_TOP_PAD` | free memory goes back after the time of the option `decay` |
//! | `M_MMAP_THRESHOLD` `M_MMAP_MAX` | objects above 32 MiB are mappings of their own |
//! | `M_MXFAST` | there are no fastbins |
//! | `M_CHECK_ACTION` | nothing, as in glibc since 2.26; see the option `on_error` |
//! | `M_PERTURB` | not honoured: memory has the contents that it happens to have |
//! | all others | nothing, as in glibc |
//!
//! `M_PERTURB` fills allocated and freed memory with a byte, to expose uses of uninitialised or
//! freed memory. The fast paths have no place for that. Valgrind, under which the library runs,
//! finds such uses better.

use core::ffi::c_int;

const M_MXFAST: c_int = 1;
/// The largest value of `M_MXFAST` that glibc accepts.
const MAX_FAST: c_int = (80 * size_of::<usize>() / 4) as c_int;

fn answer(parameter: c_int, value: c_int) -> c_int {
    c_int::from(parameter != M_MXFAST || (0..=MAX_FAST).contains(&value))
}

/// `mallopt(3)`: returns 1, or 0 for a value that glibc refuses; see the module.
#[unsafe(no_mangle)]
#[place(cold)]
pub extern "C" fn mallopt(parameter: c_int, value: c_int) -> c_int {
    answer(parameter, value)
}

/// glibc's own name of [`mallopt`].
#[unsafe(no_mangle)]
#[place(cold)]
pub extern "C" fn __libc_mallopt(parameter: c_int, value: c_int) -> c_int {
    answer(parameter, value)
}
