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
#![cfg_attr(not(all(target_arch = "x86_64", feature = "os")), allow(unreachable_pub, reason = "no macro needs them"))]

#[cfg(all(target_arch = "x86_64", feature = "os"))]
use crate::sizes::malloc::LIMIT;

/// Opens the fast paths of functions that contain the text of `malloc` with the bound of derived
/// forms.
#[cfg(all(target_arch = "x86_64", feature = "os"))]
#[doc(hidden)]
pub fn open_derived_allocs() {
    LIMIT.open_derived();
}

/// The same for `free`.
#[cfg(all(target_arch = "x86_64", feature = "os"))]
#[doc(hidden)]
pub fn open_derived_frees() {
    parts::OBJECTS.fast_entries.open_derived();
}

/// The body of a naked function `extern "C" fn(usize) -> *mut u8` that is `malloc`: the fast path
/// of it, and a jump to `$slow`, of the same type, where that has nothing. `$bound` is `OWN`, or
/// `DERIVED` for a function that has to call `$slow` unless [`open_derived_allocs`] was called.
/// Lines that follow come before the text.
#[doc(hidden)]
#[macro_export]
macro_rules! malloc_fast_path {
    ($slow:path) => {
        $crate::malloc_fast_path!(OWN, $slow)
    };
    ($bound:ident, $slow:path $(, $line:literal)*) => {
        // rdi: size. rsi: size in steps, then entry. rdx: offset of the rseq area. rcx: scratch,
        // then area of the CPU, then place of the entry. rax: object.
        core::arch::naked_asm!(
            $($line,)*
            ".cfi_startproc",
            "cmp rdi, [rip + {limit} + {bound}]",
            "jae {slow}",
            "lea esi, [rdi + {step} - 1]",
            "shr esi, {steps}",
            "mov rdx, [rip + {percpu} + {rseq}]",
            $crate::section_open!("rcx", "rdx"),
            $crate::section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
            "shl rcx, {shift}",
            "add rcx, [rip + {objects} + {slots}]",
            "movzx esi, byte ptr [rcx + rsi + {size_entries}]",
            "mov rax, [rcx + rsi*8]",
            "mov rax, [rax]",
            "test rax, rax",
            "jz {slow}",
            "add qword ptr [rcx + rsi*8], 8",
            $crate::section_close!("{slow}"),
            $crate::enter_object!(),
            "ret",
            ".cfi_endproc",
            ".p2align 6",
            limit = sym $crate::malloc::parts::LIMIT,
            bound = const $crate::malloc::parts::$bound,
            step = const $crate::malloc::parts::STEP,
            steps = const $crate::malloc::parts::STEP.ilog2(),
            size_entries = const $crate::malloc::parts::SIZE_ENTRIES,
            percpu = sym $crate::malloc::parts::PERCPU,
            rseq = const $crate::malloc::parts::RSEQ,
            gate = const $crate::malloc::parts::GATE,
            shift = const $crate::malloc::parts::AREA_SHIFT,
            objects = sym $crate::malloc::parts::OBJECTS,
            slots = const $crate::malloc::parts::SLOTS,
            grain = const $crate::malloc::parts::GRAIN,
            turn = const $crate::malloc::parts::TURN,
            slow = sym $slow,
        )
    };
}

/// Enters the object that `malloc` returns into the map.
#[doc(hidden)]
#[macro_export]
macro_rules! enter_object {
    () => {
        "mov rcx, rax\nshr rcx, {grain}\nror cx, {turn}\nmov [rcx], sil"
    };
}

/// The body of a naked function `unsafe extern "C" fn(*mut u8)` that is `free`, `OWN`, or a
/// `DERIVED` form: that one jumps to `$slow` with all its arguments as they were unless
/// [`open_derived_frees`] was called, and after that with the first one. Lines that follow come
/// before the text.
#[doc(hidden)]
#[macro_export]
macro_rules! free_fast_path {
    () => {
        $crate::free_fast_path!(OWN)
    };
    (OWN $(, $line:literal)*) => {
        $crate::free_fast_path!(@ OWN, $crate::malloc::parts::free_on_nodes, $crate::malloc::parts::free_slow $(, $line)*)
    };
    (DERIVED, $slow:path $(, $line:literal)*) => {
        $crate::free_fast_path!(@ DERIVED, $slow, $slow $(, $line)*)
    };
    (@ $bound:ident, $beyond:path, $slow:path $(, $line:literal)*) => {
        // rdi: object. r8: place of its entry. rsi: its entry. rax: number of the entry, then top.
        // rdx: offset of the rseq area. rcx: scratch, then area of the CPU.
        core::arch::naked_asm!(
            $($line,)*
            ".cfi_startproc",
            "mov r8, rdi",
            "ror r8, {grain}",
            "mov rax, r8",
            "ror r8w, {turn}",
            "sub rax, [rip + {objects} + {first}]",
            "cmp rax, [rip + {objects} + {entries} + {bound}]",
            "jae {beyond}",
            "movzx esi, byte ptr [r8]",
            "mov rdx, [rip + {percpu} + {rseq}]",
            $crate::section_open!("rcx", "rdx"),
            $crate::section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
            "shl rcx, {shift}",
            "add rcx, [rip + {objects} + {slots}]",
            "mov rax, [rcx + rsi*8]",
            $crate::section_room!("rax", "al", "{slow}"),
            "mov byte ptr [r8], 0",
            "mov [rax - 8], rdi",
            "sub qword ptr [rcx + rsi*8], 8",
            $crate::section_close!("{slow}", "test esi, esi\njz {slow}\nmov [r8], sil\n"),
            "ret",
            ".cfi_endproc",
            ".p2align 6",
            objects = sym $crate::malloc::parts::OBJECTS,
            first = const $crate::malloc::parts::FIRST,
            entries = const $crate::malloc::parts::ENTRIES,
            bound = const $crate::malloc::parts::$bound,
            slots = const $crate::malloc::parts::SLOTS,
            grain = const $crate::malloc::parts::GRAIN,
            turn = const $crate::malloc::parts::TURN,
            percpu = sym $crate::malloc::parts::PERCPU,
            rseq = const $crate::malloc::parts::RSEQ,
            gate = const $crate::malloc::parts::GATE,
            shift = const $crate::malloc::parts::AREA_SHIFT,
            beyond = sym $beyond,
            slow = sym $slow,
        )
    };
}

/// The items that the macros refer to. No other code may use them.
#[cfg(all(target_arch = "x86_64", feature = "os"))]
#[expect(missing_docs, reason = "named as the operands of the macros are")]
pub mod parts {
    pub use super::on_nodes::free_on_nodes;
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

#[cfg(all(target_arch = "x86_64", feature = "os"))]
mod on_nodes {
    use super::parts::{GATE, GRAIN, RSEQ, SLOTS};
    use crate::base::units::BLOCK_SIZE;
    use crate::faces::malloc::slow::free_slow;
    use crate::pages::memmap::{MEMMAP, MemMap};
    use crate::percpu::area::{AREA_SHIFT, NODE_OFFSET, PERCPU};
    use crate::sizes::malloc::SLOT_OF_CODE_0;
    use crate::sizes::object_map::{OBJECTS, ObjectMap};
    use core::mem::offset_of;

    /// Where [`free`](super::free) jumps with an object beyond its bound. Frees it to the CPU's
    /// sheaf if its block is of the CPU's node, as `kfree` does, and jumps to the slow path
    /// otherwise.
    ///
    /// # Safety
    /// As for [`free`](super::free). `rax` is the number of its entry, and `r8` the place of it.
    #[unsafe(naked)]
    pub unsafe extern "C" fn free_on_nodes(ptr: *mut u8) {
        // rdi: object. r8: place of its entry. rsi: its entry. r9: node. rax: number of the entry,
        // then block, then its node's place, then top. rdx: offset of the rseq area. rcx: scratch,
        // then area of the CPU.
        core::arch::naked_asm!(
            ".cfi_startproc",
            "cmp rax, [rip + {objects} + {entries}]",
            "jae {slow}",
            "shr rax, {block}",
            "add rax, [rip + {memmap} + {nodes}]",
            "movzx r9d, byte ptr [rax]",
            "movzx esi, byte ptr [r8]",
            "mov rdx, [rip + {percpu} + {rseq}]",
            crate::percpu::sections::section_open!("rcx", "rdx"),
            crate::percpu::sections::section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
            "shl rcx, {shift}",
            "add rcx, [rip + {objects} + {slots}]",
            "cmp byte ptr [rcx + {node}], r9b",
            "jne {slow}",
            "mov rax, [rcx + rsi*8]",
            crate::percpu::sections::section_room!("rax", "al", "{slow}"),
            "mov byte ptr [r8], 0",
            "mov [rax - 8], rdi",
            "sub qword ptr [rcx + rsi*8], 8",
            crate::percpu::sections::section_close!("{slow}", "test esi, esi\njz {slow}\nmov [r8], sil\n"),
            "ret",
            ".cfi_endproc",
            ".p2align 6",
            objects = sym OBJECTS,
            entries = const offset_of!(ObjectMap, checked_entries),
            block = const (BLOCK_SIZE.ilog2() - GRAIN),
            memmap = sym MEMMAP,
            nodes = const offset_of!(MemMap, block_nodes),
            slots = const SLOTS,
            node = const NODE_OFFSET as isize - SLOT_OF_CODE_0 as isize,
            percpu = sym PERCPU,
            rseq = const RSEQ,
            gate = const GATE,
            shift = const AREA_SHIFT,
            slow = sym free_slow,
        )
    }
}

/// Allocates at least `size` bytes at a multiple of 16. Returns null, with `errno` `ENOMEM`,
/// without memory. A size of 0 gets memory, too.
#[cfg(all(target_arch = "x86_64", feature = "os"))]
#[unsafe(naked)]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
    crate::malloc_fast_path!(parts::malloc_slow)
}

/// Memory of at least `size` bytes; see the x86-64 version.
#[cfg(not(all(target_arch = "x86_64", feature = "os")))]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
    super::malloc_slow(size)
}

/// Frees memory. Null is ignored. An address that is not a live object's is reported and ends the
/// program.
///
/// # Safety
/// `ptr` is null or was allocated here, was not freed since, and no thread uses it any more.
#[cfg(all(target_arch = "x86_64", feature = "os"))]
#[unsafe(naked)]
pub unsafe extern "C" fn free(ptr: *mut u8) {
    crate::free_fast_path!()
}

/// Gives memory back; see the x86-64 version.
///
/// # Safety
/// `ptr` is null or was allocated here, was not freed since, and no thread uses it any more.
#[cfg(not(all(target_arch = "x86_64", feature = "os")))]
pub unsafe extern "C" fn free(ptr: *mut u8) {
    // SAFETY: passed on.
    unsafe { super::slow::free_slow(ptr) }
}
