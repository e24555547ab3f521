//! The entry points `malloc` and `free` with their fast paths; see `faces::kmalloc::entry`, whose
//! sections these are.
//!
//! `free` finds the class in the object map (see [`crate::sizes::object_map`]) instead of the
//! memmap: the one load that names the cache also says that a live object starts at the address, so
//! misuse is caught in every build. In return `malloc` writes the object's entry and `free` clears
//! it.
//!
//! The section of `free` clears the entry right before its commit, so a thread that finds the
//! object on the sheaf finds the entry cleared. An abort between the two restores the entry, so the
//! slow path gets a live object. An address that is not a live object has the entry 0 and needs no
//! test, because the slot of entry 0 has no room.
//!
//! # Sides
//! The lowest bit of an entry is the side of the CPU that handed the object out; neighbouring CPUs
//! have different sides. `free` pushes an object of its own side on the main sheaf, where the next
//! `malloc` finds it hot in the cache, and an object of the other side on the spare. So two threads
//! on two CPUs that got neighbours in one cache line do not keep reusing them (passive false
//! sharing). The bit is only a hint. A thread that was moved to another CPU puts its older objects
//! on the spare, and the spare becomes the main sheaf when that is empty. A CPU's side is the
//! lowest bit of its number. On CPUs of side 1 the words of malloc's slots are swapped (see
//! [`crate::percpu::area`]), so an entry is directly the number of the right word, on the
//! allocating and on the freeing CPU. Each area has its own table of the entries for all sizes, so
//! that `malloc` loads an entry instead of computing it from a code and a side.
//!
//! # The map has its place
//! These paths compute the address of an entry from the object's: divided by 16, with the low 16
//! bits of the result rotated by two, which selects the plane of the map. If the map does not lie
//! at the place that this assumes, the paths stay closed, and every call takes the slow path (see
//! [`crate::sizes::object_map`]). `free` rotates the whole address instead of dividing it, so that
//! addresses that are not multiples of 16 are beyond every zone.
//!
//! # Whose name they have
//! A jump from an exported `malloc` to a fast path elsewhere would cost time in every call. So the
//! paths are macros, `malloc_fast_path!` and `free_fast_path!`, and the crate that exports the
//! names expands them there.
#![allow(unsafe_code, reason = "naked functions")]
#![cfg_attr(
    not(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))),
    allow(unreachable_pub, reason = "no macro needs them")
)]

#[cfg(all(feature = "os", target_arch = "aarch64"))]
mod aarch64;
#[cfg(all(feature = "os", target_arch = "x86_64"))]
mod x86_64;

#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
use crate::sizes::malloc::LIMIT;

/// Opens the fast paths of functions that contain the text of `malloc` with the bound of derived
/// forms.
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
pub fn open_derived_allocs() {
    LIMIT.open_derived();
}

/// The same for `free`.
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[doc(hidden)]
pub fn open_derived_frees() {
    parts::OBJECTS.fast_entries.open_derived();
}

/// The items that the macros refer to. No other code may use them.
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[expect(missing_docs, reason = "named as the operands of the macros are")]
pub mod parts {
    #[cfg(target_arch = "aarch64")]
    pub use super::aarch64::free_on_nodes;
    #[cfg(target_arch = "x86_64")]
    pub use super::x86_64::free_on_nodes;
    use crate::base::sync::Bound;
    pub use crate::faces::kmalloc::entry::parts::*;
    pub use crate::faces::malloc::counted::malloc_slow;
    pub use crate::faces::malloc::slow::free_slow;
    pub use crate::sizes::malloc::LIMIT;
    pub use crate::sizes::object_map::OBJECTS;
    use crate::sizes::object_map::ObjectMap;
    use core::mem::offset_of;

    pub const STEP: usize = crate::sizes::malloc::classes::STEP;
    pub const FIRST: usize = offset_of!(ObjectMap, first);
    pub const ENTRIES: usize = offset_of!(ObjectMap, fast_entries);
    pub const OWN: usize = Bound::OWN;
    pub const DERIVED: usize = Bound::DERIVED;
    pub const SLOTS: usize = offset_of!(ObjectMap, slots);
    pub const SIZE_ENTRIES: usize = crate::percpu::area::SIZE_ENTRIES - crate::sizes::malloc::SLOT_OF_CODE_0;
    pub const GRAIN: u32 = crate::sizes::object_map::GRAIN.ilog2();
    pub const TURN: u32 = crate::sizes::object_map::TURN;
}

/// Allocates at least `size` bytes at a multiple of 16. Returns null, with `errno` `ENOMEM`,
/// without memory. A size of 0 gets memory, too.
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[unsafe(naked)]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
    crate::malloc_fast_path!(parts::malloc_slow)
}

/// Memory of at least `size` bytes; without a fast path.
#[cfg(not(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
    super::malloc_slow(size)
}

/// Frees memory. Null is ignored. An address that is not a live object's is reported and ends the
/// program.
///
/// # Safety
/// `ptr` is null or was allocated here, was not freed since, and no thread uses it any more.
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[unsafe(naked)]
pub unsafe extern "C" fn free(ptr: *mut u8) {
    crate::free_fast_path!()
}

/// Gives memory back; without a fast path.
///
/// # Safety
/// `ptr` is null or was allocated here, was not freed since, and no thread uses it any more.
#[cfg(not(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub unsafe extern "C" fn free(ptr: *mut u8) {
    // SAFETY: passed on.
    unsafe { super::slow::free_slow(ptr) }
}
