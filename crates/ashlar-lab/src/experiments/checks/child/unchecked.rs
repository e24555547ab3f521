//! `malloc` and `free` without the instructions of the misuse checks, for comparison alone.
//!
//! The text is that of `malloc_fast_path!` and `free_fast_path!`, less the four instructions that
//! enter an object into the object map and the one that removes it. `free` still reads the class
//! from the map. So the map must hold the class of every object that these functions hand out:
//! objects that passed through them keep their entry when they are free, and the slow paths below
//! enter the others.
//!
//! Only one thread may use these functions, with objects of one size at a time, which [`prepare`]
//! names. A double free goes unnoticed. A test compares the text with that of the product, so a
//! change there has to be repeated here.
#![allow(unsafe_code, reason = "naked functions, and stores to the object map")]

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use ashlar::malloc::parts;

use crate::systems::traits::Calls;

/// The map's entry of a live object of the size that [`prepare`] was called with.
static ENTRY: AtomicU8 = AtomicU8::new(0);
/// Calls that left the fast path.
static SLOW: AtomicU64 = AtomicU64::new(0);

/// The unchecked functions as a system.
#[derive(Debug)]
pub(super) struct Unchecked;

impl Calls for Unchecked {
    #[inline(always)]
    fn alloc(size: usize) -> *mut u8 {
        malloc(size)
    }

    #[inline(always)]
    unsafe fn free(object: *mut u8, _size: usize) {
        // SAFETY: by the contract of this function `object` is live and came from `malloc`.
        unsafe { free(object) }
    }
}

/// Calls of this file's functions that left the fast path so far.
pub(super) fn slow_calls() -> u64 {
    SLOW.load(Ordering::Relaxed)
}

/// Must be called before objects of another size are allocated.
pub(super) fn prepare(size: usize) {
    let object = ashlar::malloc::malloc(size);
    if !object.is_null() {
        ENTRY.store(entry_of(object).load(Ordering::Relaxed), Ordering::Relaxed);
        // SAFETY: allocated above, and freed once.
        unsafe { ashlar::malloc::free(object) };
    }
}

/// The entry of an object in the map, at the place that the fast paths assume.
fn entry_of(object: *mut u8) -> &'static AtomicU8 {
    let grain = object as usize >> parts::GRAIN;
    let place = grain & !0xffff | (grain as u16).rotate_right(parts::TURN) as usize;
    // SAFETY: `object` is an object of malloc's caches, so its entry is committed, and the map lies
    // at its place, or `has_fast_paths` would be false and nothing here would run. Entries are
    // atomic bytes in the library too.
    unsafe { &*(place as *const AtomicU8) }
}

/// The fast path of `malloc` without the entry into the map.
#[unsafe(naked)]
pub(super) extern "C" fn malloc(size: usize) -> *mut u8 {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "cmp rdi, [rip + {limit} + {bound}]",
        "jae {slow}",
        "lea esi, [rdi + {step} - 1]",
        "shr esi, {steps}",
        "mov rdx, [rip + {percpu} + {rseq}]",
        ashlar::section_open!("rcx", "rdx"),
        ashlar::section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
        "shl rcx, {shift}",
        "add rcx, [rip + {objects} + {slots}]",
        "movzx esi, byte ptr [rcx + rsi + {size_entries}]",
        "mov rax, [rcx + rsi*8]",
        "mov rax, [rax]",
        "test rax, rax",
        "jz {slow}",
        "add qword ptr [rcx + rsi*8], 8",
        ashlar::section_close!("{slow}"),
        "ret",
        ".cfi_endproc",
        ".p2align 6",
        limit = sym parts::LIMIT,
        bound = const parts::OWN,
        step = const parts::STEP,
        steps = const parts::STEP.ilog2(),
        size_entries = const parts::SIZE_ENTRIES,
        percpu = sym parts::PERCPU,
        rseq = const parts::RSEQ,
        gate = const parts::GATE,
        shift = const parts::AREA_SHIFT,
        objects = sym parts::OBJECTS,
        slots = const parts::SLOTS,
        slow = sym malloc_slow,
    )
}

/// The fast path of `free` without the removal from the map.
///
/// # Safety
/// `object` is live, came from [`malloc`] of this file, and has the size of the last [`prepare`].
#[unsafe(naked)]
pub(super) unsafe extern "C" fn free(object: *mut u8) {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "mov r8, rdi",
        "ror r8, {grain}",
        "mov rax, r8",
        "ror r8w, {turn}",
        "sub rax, [rip + {objects} + {first}]",
        "cmp rax, [rip + {objects} + {entries} + {bound}]",
        "jae {slow}",
        "movzx esi, byte ptr [r8]",
        "mov rdx, [rip + {percpu} + {rseq}]",
        ashlar::section_open!("rcx", "rdx"),
        ashlar::section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
        "shl rcx, {shift}",
        "add rcx, [rip + {objects} + {slots}]",
        "mov rax, [rcx + rsi*8]",
        ashlar::section_room!("rax", "al", "{slow}"),
        "mov [rax - 8], rdi",
        "sub qword ptr [rcx + rsi*8], 8",
        ashlar::section_close!("{slow}"),
        "ret",
        ".cfi_endproc",
        ".p2align 6",
        objects = sym parts::OBJECTS,
        first = const parts::FIRST,
        entries = const parts::ENTRIES,
        bound = const parts::OWN,
        slots = const parts::SLOTS,
        grain = const parts::GRAIN,
        turn = const parts::TURN,
        percpu = sym parts::PERCPU,
        rseq = const parts::RSEQ,
        gate = const parts::GATE,
        shift = const parts::AREA_SHIFT,
        slow = sym free_slow,
    )
}

extern "C" fn malloc_slow(size: usize) -> *mut u8 {
    SLOW.fetch_add(1, Ordering::Relaxed);
    // Enters the object.
    ashlar::malloc::malloc_slow(size)
}

/// # Safety
/// As for [`free`], or null.
unsafe extern "C" fn free_slow(object: *mut u8) {
    SLOW.fetch_add(1, Ordering::Relaxed);
    if object.is_null() {
        return;
    }
    let (entry, code) = (entry_of(object), ENTRY.load(Ordering::Relaxed));
    // An object that the fast path of `malloc` took from a new sheaf has no entry.
    entry.store(code, Ordering::Relaxed);
    // SAFETY: by the contract of `free` the object is live, and now the map says so.
    unsafe { ashlar::malloc::free_slow(object) };
    // The next `malloc` of this file may hand the object out without entering it.
    entry.store(code, Ordering::Relaxed);
}
