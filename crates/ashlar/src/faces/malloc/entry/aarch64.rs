//! The fast paths of `malloc` and `free` for aarch64; see the module above.
//!
//! A conditional branch reaches a mebibyte, and the slow path may lie further away. So the paths
//! branch to a jump behind them.
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
///
/// [`open_derived_allocs`]: super::open_derived_allocs
#[doc(hidden)]
#[macro_export]
macro_rules! malloc_fast_path {
    ($slow:path) => {
        $crate::malloc_fast_path!(OWN, $slow)
    };
    ($bound:ident, $slow:path $(, $line:literal)*) => {
        // x0: size, then object. x10: size in steps. x11: PERCPU. x12: offset of the rseq area,
        // then gate. x13: rseq area, then object. x14: area of the CPU, then slot's word. x15:
        // entry. x9: scratch, then place of the entry.
        core::arch::naked_asm!(
            $($line,)*
            ".cfi_startproc",
            $crate::landing_pad!(),
            "adrp x9, {limit}",
            "ldr x9, [x9, :lo12:{limit} + {bound}]",
            "cmp x0, x9",
            "b.hs 8f",
            "add x10, x0, {step} - 1",
            "lsr x10, x10, {steps}",
            // What start-up wrote before the limit is read behind it: the addresses depend on it.
            "eor x12, x9, x9",
            "adrp x14, {objects} + {slots}",
            "add x14, x14, x12",
            "adrp x11, {percpu}",
            "add x11, x11, :lo12:{percpu}",
            "add x11, x11, x12",
            "ldr x12, [x11, {rseq}]",
            "ldr x14, [x14, :lo12:{objects} + {slots}]",
            $crate::section_open!("x9", "x13", "x12"),
            $crate::section_cpu!("w9", "x13", "w12", "[x11, {gate}]", "8f"),
            "add x14, x14, x9, lsl {shift}",
            "add x9, x14, {size_entries}",
            "ldrb w15, [x9, x10]",
            "add x14, x14, x15, lsl #3",
            "ldr x9, [x14]",
            "ldr x13, [x9]",
            "cbz x13, 8f",
            "add x9, x9, #8",
            "str x9, [x14]",
            $crate::section_close!("{slow}"),
            "mov x0, x13",
            $crate::enter_object!(),
            "ret",
            "8: b {slow}",
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
        "lsr x9, x0, {grain}\nubfx x10, x9, {turn}, 16 - {turn}\nbfi x10, x9, 16 - {turn}, {turn}\nbfi x9, x10, #0, #16\nstrb w15, [x9]"
    };
}

/// The body of a naked function `unsafe extern "C" fn(*mut u8)` that is `free`, `OWN`, or a
/// `DERIVED` form: that one jumps to `$slow` with all its arguments as they were unless
/// [`open_derived_frees`] was called, and after that with the first one. Lines that follow come
/// before the text.
///
/// [`open_derived_frees`]: super::open_derived_frees
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
        // x0: object. x9: place of its entry. x10: number of the entry. x11: PERCPU. x12: OBJECTS.
        // x13: scratch, then slot's word. x14: CPU, then top. x15: entry. x8: rseq area, scratch.
        core::arch::naked_asm!(
            $($line,)*
            ".cfi_startproc",
            $crate::landing_pad!(),
            "ror x10, x0, {grain}",
            "ubfx x11, x10, {turn}, 16 - {turn}",
            "bfi x11, x10, 16 - {turn}, {turn}",
            "mov x9, x10",
            "bfi x9, x11, #0, #16",
            "adrp x12, {objects}",
            "add x12, x12, :lo12:{objects}",
            "ldr x13, [x12, {first}]",
            "sub x10, x10, x13",
            "ldr x13, [x12, {entries} + {bound}]",
            "cmp x10, x13",
            "b.hs 9f",
            "ldrb w15, [x9]",
            "adrp x11, {percpu}",
            "add x11, x11, :lo12:{percpu}",
            "ldr x13, [x11, {rseq}]",
            $crate::section_open!("x14", "x8", "x13"),
            $crate::section_cpu!("w14", "x8", "w13", "[x11, {gate}]", "8f"),
            "ldr x13, [x12, {slots}]",
            "add x13, x13, x14, lsl {shift}",
            "add x13, x13, x15, lsl #3",
            "ldr x14, [x13]",
            $crate::section_room!("x14", "w14", "w8", "8f"),
            "strb wzr, [x9]",
            "str x0, [x14, #-8]!",
            "str x14, [x13]",
            $crate::section_close!("{slow}", "cbz w15, 6f\nstrb w15, [x9]\n6: "),
            "ret",
            "8: b {slow}",
            "9: b {beyond}",
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

/// Where [`free`](super::free) jumps with an object beyond its bound. Frees it to the CPU's sheaf
/// if its block is of the CPU's node, as `kfree` does, and jumps to the slow path otherwise.
///
/// # Safety
/// As for [`free`](super::free). `x10` is the number of its entry, and `x9` the place of it.
#[unsafe(naked)]
pub unsafe extern "C" fn free_on_nodes(ptr: *mut u8) {
    // The registers are those of `free_fast_path`. x10: number of the entry, then node of the
    // block.
    core::arch::naked_asm!(
        ".cfi_startproc",
        crate::landing_pad!(),
        "adrp x12, {objects}",
        "add x12, x12, :lo12:{objects}",
        "ldr x13, [x12, {entries}]",
        "cmp x10, x13",
        "b.hs 8f",
        "lsr x10, x10, {block}",
        "adrp x13, {memmap} + {nodes}",
        "ldr x13, [x13, :lo12:{memmap} + {nodes}]",
        "ldrb w10, [x13, x10]",
        "ldrb w15, [x9]",
        "adrp x11, {percpu}",
        "add x11, x11, :lo12:{percpu}",
        "ldr x13, [x11, {rseq}]",
        crate::section_open!("x14", "x8", "x13"),
        crate::section_cpu!("w14", "x8", "w13", "[x11, {gate}]", "8f"),
        "ldr x13, [x12, {slots}]",
        "add x13, x13, x14, lsl {shift}",
        "ldurb w14, [x13, {node}]",
        "cmp w14, w10",
        "b.ne 8f",
        "add x13, x13, x15, lsl #3",
        "ldr x14, [x13]",
        crate::section_room!("x14", "w14", "w8", "8f"),
        "strb wzr, [x9]",
        "str x0, [x14, #-8]!",
        "str x14, [x13]",
        crate::section_close!("{slow}", "cbz w15, 6f\nstrb w15, [x9]\n6: "),
        "ret",
        "8: b {slow}",
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
