//! The fast paths of `malloc` and `free` for x86-64; see the module above.
#![allow(unsafe_code, reason = "naked functions")]

use super::parts::{GATE, GRAIN, RSEQ, SLOTS};
use crate::base::units::BLOCK_SIZE;
use crate::faces::malloc::slow::free_slow;
use crate::pages::memmap::{MEMMAP, MemMap};
use crate::percpu::area::{AREA_SHIFT, NODE_OFFSET, PERCPU};
use crate::sizes::malloc::SLOT_OF_CODE_0;
use crate::sizes::object_map::{OBJECTS, ObjectMap};
use core::mem::offset_of;

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
