//! The entry points `malloc` and `free` with their fast paths; see [`crate::kmalloc::entry`], whose sections these are.
//!
//! `free` finds the class in the object map (see [`crate::page::objmap`]) instead of the memmap: the one load that names
//! the cache also says that a live object starts at the address, so misuse is caught in every build. In return `malloc`
//! writes the object's entry and `free` clears it. `free` clears before its section begins: whatever then happens, the
//! object is taken off the map exactly once, by who saw it there.
//!
//! # Sides
//! The lowest bit of an entry is the side of the CPU that handed the object out: neighbouring CPUs have different ones.
//! `free` pushes an object of its own side on the main sheaf, where the next `malloc` finds it, hot in the cache; an object
//! of the other side on the spare. So two threads on two CPUs that were handed neighbours in one cache line do not go on
//! reusing them (passive false sharing): each has what its own CPU was given. The bit is advice. A thread that was moved
//! to another CPU puts its older objects on the spare, and the spare becomes the main sheaf when that is empty. A CPU's side
//! is the lowest bit of its number: to read it from its area cost two loads more, in code that waits for nothing but loads.
//!
//! # Whose name they have
//! A jump from an exported `malloc` to the fast path elsewhere would show in every call. So the paths are macros, and whoever gives
//! them a name of the linker's has them stand there: `malloc_fast_path!`, `free_fast_path!`.
#![allow(unsafe_code, reason = "naked functions")]
#![cfg_attr(not(all(target_arch = "x86_64", feature = "os")), allow(unreachable_pub, reason = "no macro needs them"))]

use crate::sync::{AtomicUsize, Ordering};

/// What sizes must be below to take the fast path. 0 until malloc's caches exist: no section may run before the boot.
#[repr(transparent)]
#[derive(Debug)]
pub struct Limit(AtomicUsize);

/// The one limit of the process.
pub static LIMIT: Limit = Limit(AtomicUsize::new(0));

impl Limit {
    /// Lets sizes up to `most` take the fast path.
    pub(crate) fn open(&self, most: usize) {
        self.0.store(most + 1, Ordering::Release);
    }
}

/// The body of a naked function `extern "C" fn(usize) -> *mut u8` that is `malloc`: the fast path of it, and a jump to `$slow`, of the
/// same type, where that has nothing.
#[cfg(not(ashlar_unchecked))]
#[doc(hidden)]
#[macro_export]
macro_rules! malloc_fast_path {
    ($slow:path) => {
        // rdi: size. rsi: code of the class, then entry. rdx: offset of the rseq area, then side, then bias of the map. rcx: scratch,
        // then area of the CPU, then address by grain. rax: object.
        core::arch::naked_asm!(
            ".cfi_startproc",
            "cmp rdi, [rip + {limit}]",
            "jae {slow}",
            "lea rcx, [rip + {codes}]",
            "movzx esi, byte ptr [rcx + rdi]",
            "mov rdx, [rip + {percpu} + {rseq}]",
            $crate::section_open!("rcx", "rdx"),
            $crate::section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
            "mov edx, ecx",
            "shl rcx, {shift}",
            "add rcx, [rip + {objects} + {slots}]",
            "and edx, 1",
            "mov rax, [rcx + rsi*8]",
            "mov rax, [rax]",
            "test rax, rax",
            "jz {slow}",
            "add qword ptr [rcx + rsi*8], 8",
            $crate::section_close!("{slow}"),
            "or esi, edx",
            "mov rcx, rax",
            "shr rcx, {grain}",
            "mov rdx, [rip + {objects} + {bias}]",
            "mov [rcx + rdx], sil",
            "ret",
            ".cfi_endproc",
            ".p2align 6",
            limit = sym $crate::malloc::parts::LIMIT,
            codes = sym $crate::malloc::parts::SIZE_CODE,
            percpu = sym $crate::malloc::parts::PERCPU,
            rseq = const $crate::malloc::parts::RSEQ,
            gate = const $crate::malloc::parts::GATE,
            shift = const $crate::malloc::parts::AREA_SHIFT,
            objects = sym $crate::malloc::parts::OBJECTS,
            slots = const $crate::malloc::parts::SLOTS,
            bias = const $crate::malloc::parts::BIAS,
            grain = const $crate::malloc::parts::GRAIN,
            slow = sym $slow,
        )
    };
}

/// The body of a naked function `unsafe extern "C" fn(*mut u8)` that is `free`.
#[cfg(not(ashlar_unchecked))]
#[doc(hidden)]
#[macro_export]
macro_rules! free_fast_path {
    () => {
        // rdi: object. rsi: its entry, then twice the number of the word in the area. rax: place of the entry, then top. rdx: offset
        // of the rseq area, then side. rcx: map, then area of the CPU.
        core::arch::naked_asm!(
            ".cfi_startproc",
            "mov rax, rdi",
            "sub rax, [rip + {objects} + {zone}]",
            "ror rax, {grain}",
            "cmp rax, [rip + {objects} + {entries}]",
            "jae {slow}",
            "mov rcx, [rip + {objects} + {map}]",
            "movzx esi, byte ptr [rcx + rax]",
            "test esi, esi",
            "jz {slow}",
            "mov byte ptr [rcx + rax], 0",
            "mov rdx, [rip + {percpu} + {rseq}]",
            $crate::section_open!("rcx", "rdx"),
            $crate::section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{taken}"),
            "mov edx, ecx",
            "shl rcx, {shift}",
            "add rcx, [rip + {objects} + {slots}]",
            "and edx, 1",
            "xor esi, edx",
            "mov rax, [rcx + rsi*8]",
            "test eax, {full}",
            "jz {taken}",
            "mov [rax - 8], rdi",
            "sub qword ptr [rcx + rsi*8], 8",
            $crate::section_close!("{taken}"),
            "ret",
            ".cfi_endproc",
            ".p2align 6",
            objects = sym $crate::malloc::parts::OBJECTS,
            zone = const $crate::malloc::parts::ZONE,
            entries = const $crate::malloc::parts::ENTRIES,
            map = const $crate::malloc::parts::MAP,
            slots = const $crate::malloc::parts::SLOTS,
            grain = const $crate::malloc::parts::GRAIN,
            percpu = sym $crate::malloc::parts::PERCPU,
            rseq = const $crate::malloc::parts::RSEQ,
            gate = const $crate::malloc::parts::GATE,
            shift = const $crate::malloc::parts::AREA_SHIFT,
            full = const $crate::malloc::parts::FULL_MASK,
            slow = sym $crate::malloc::parts::free_slow,
            taken = sym $crate::malloc::parts::free_taken,
        )
    };
}

/// What the macros refer to. Nothing of it is to be called or read but by them.
#[cfg(all(target_arch = "x86_64", feature = "os"))]
#[expect(missing_docs, reason = "named as the operands of the macros are")]
pub mod parts {
    pub use super::LIMIT;
    pub use crate::malloc::{SIZE_CODE, free_slow, free_taken, malloc_slow};
    pub use crate::page::objmap::OBJECTS;
    pub use crate::percpu::area::PERCPU;

    use crate::page::objmap::ObjectMap;
    use crate::percpu::area::PerCpu;
    use crate::percpu::{area, sections};
    use core::mem::offset_of;

    pub const RSEQ: usize = offset_of!(PerCpu, rseq_offset);
    pub const GATE: usize = sections::GATE;
    pub const AREA_SHIFT: u32 = area::AREA_SHIFT;
    pub const FULL_MASK: usize = sections::FULL_MASK;
    pub const ZONE: usize = offset_of!(ObjectMap, zone_base);
    pub const ENTRIES: usize = offset_of!(ObjectMap, fast_entries);
    pub const MAP: usize = offset_of!(ObjectMap, map);
    pub const SLOTS: usize = offset_of!(ObjectMap, slots);
    pub const BIAS: usize = offset_of!(ObjectMap, bias);
    pub const GRAIN: u32 = crate::page::objmap::GRAIN.ilog2();

    #[cfg(ashlar_unchecked)]
    pub use by_page::*;

    /// What `free` refers to where it looks at the page.
    #[cfg(ashlar_unchecked)]
    mod by_page {
        pub use crate::page::memmap::MEMMAP;
        use crate::page::memmap::MemMap;
        use crate::percpu::area::PerCpu;
        use core::mem::offset_of;

        pub const MEMMAP_ZONE: usize = offset_of!(MemMap, zone_base);
        pub const FAST_PAGES: usize = offset_of!(MemMap, fast_pages);
        pub const CLASS: usize = offset_of!(MemMap, class);
        pub const BASE: usize = offset_of!(PerCpu, base);
    }
}

/// Memory of at least `size` bytes at a multiple of 16; null, and `errno` is `ENOMEM`, when there is none.
/// A size of 0 gets memory too.
#[cfg(all(target_arch = "x86_64", feature = "os"))]
#[unsafe(naked)]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
    crate::malloc_fast_path!(parts::malloc_slow)
}

/// Memory of at least `size` bytes; see the x86-64 version.
#[cfg(not(all(target_arch = "x86_64", feature = "os")))]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
    crate::malloc::malloc_slow(size)
}

/// Gives memory back. Null is ignored; what is not a live object's address is reported and ends the program.
///
/// # Safety
/// `ptr` is null or was allocated here, was not freed since, and nobody uses it any more.
#[cfg(all(target_arch = "x86_64", feature = "os"))]
#[unsafe(naked)]
pub unsafe extern "C" fn free(ptr: *mut u8) {
    crate::free_fast_path!()
}

/// Gives memory back; see the x86-64 version.
///
/// # Safety
/// `ptr` is null or was allocated here, was not freed since, and nobody uses it any more.
#[cfg(not(all(target_arch = "x86_64", feature = "os")))]
pub unsafe extern "C" fn free(ptr: *mut u8) {
    // SAFETY: passed on.
    unsafe { crate::malloc::free_slow(ptr) }
}
