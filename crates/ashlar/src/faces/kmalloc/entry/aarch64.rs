//! The entry points of kmalloc for aarch64; see the module above.
//!
//! The slow paths may lie further away than a conditional branch reaches, so each function ends in
//! jumps to them.
#![allow(unsafe_code, reason = "naked functions")]

use crate::base::units::{BLOCK_ORDER, PAGE_SHIFT};
use crate::faces::kmalloc::{kfree_far, kfree_slow, kmalloc_called_from, kmalloc_direct};
use crate::pages::memmap::{MEMMAP, MemMap};
use crate::percpu::area::{AREA_SHIFT, GATE, NODE_OFFSET, PERCPU, PerCpu};
use crate::sizes::kmalloc::{LIMIT, SIZE_SLOT, SIZED_FREE_LIMIT, SIZED_FREES_BY_ADDRESS, is_direct};
use core::arch::naked_asm;
use core::mem::offset_of;

/// The directives after each entry point: they align its section, and so its start, to 64
/// bytes. An entry that starts in the middle of a cache line would take two fetches.
macro_rules! entry_end {
    () => {
        ".p2align 6"
    };
}

/// Allocates at least `size` bytes. Returns null without memory, and
/// [`ZERO_SIZE_PTR`](crate::ZERO_SIZE_PTR) for a size of 0. Sizes that are powers of two are
/// naturally aligned, up to a page. Others are aligned to the largest power of two that divides
/// their size class (at least 8). Source: the kernel's `kmalloc`.
#[unsafe(naked)]
pub extern "C" fn kmalloc(size: usize) -> *mut u8 {
    // x0: size, then object. x10: slot of CPU 0, then of this one. x11: PERCPU. x12: offset of the
    // rseq area, then gate. x14: CPU, then top. x8: rseq area. x9: scratch, then object.
    naked_asm!(
        ".cfi_startproc",
        crate::landing_pad!(),
        "adrp x9, {limit}",
        "ldr x9, [x9, :lo12:{limit}]",
        "cmp x0, x9",
        "b.hs 8f",
        // What start-up wrote before the limit is read behind it: the addresses depend on it.
        "eor x12, x9, x9",
        "adrp x9, {sizes}",
        "add x9, x9, :lo12:{sizes}",
        "ldrh w10, [x9, x0, lsl #1]",
        "adrp x11, {percpu}",
        "add x11, x11, :lo12:{percpu}",
        "add x11, x11, x12",
        "ldr x12, [x11, {base}]",
        "add x10, x10, x12",
        "ldr x12, [x11, {rseq}]",
        crate::section_open!("x14", "x8", "x12"),
        crate::section_cpu!("w14", "x8", "w12", "[x11, {gate}]", "8f"),
        "add x10, x10, x14, lsl {shift}",
        "ldr x14, [x10]",
        "ldr x9, [x14]",
        "cbz x9, 8f",
        "add x14, x14, #8",
        "str x14, [x10]",
        crate::section_close!("{slow}"),
        "mov x0, x9",
        "ret",
        "8: b {slow}",
        ".cfi_endproc",
        entry_end!(),
        limit = sym LIMIT,
        sizes = sym SIZE_SLOT,
        percpu = sym PERCPU,
        base = const offset_of!(PerCpu, base),
        rseq = const offset_of!(PerCpu, rseq_offset),
        gate = const GATE,
        shift = const AREA_SHIFT,
        slow = sym kmalloc_slow,
    )
}

/// Where [`kmalloc`] jumps if its section found no object.
extern "C" fn kmalloc_slow(size: usize) -> *mut u8 {
    if is_direct(size) { kmalloc_direct(size) } else { kmalloc_with_caller(size) }
}

/// Passes on where the call of `kmalloc` returns to, if the compiler made jumps of the calls before
/// it, as it does when it optimises. Otherwise all calls have one site.
#[unsafe(naked)]
extern "C" fn kmalloc_with_caller(size: usize) -> *mut u8 {
    naked_asm!(
        ".cfi_startproc",
        crate::landing_pad!(),
        "mov x1, x30",
        "b {rest}",
        ".cfi_endproc",
        rest = sym kmalloc_called_from,
    )
}

/// Frees an object of kmalloc, or of any cache. Null and
/// [`ZERO_SIZE_PTR`](crate::ZERO_SIZE_PTR) are ignored. An address that was never handed out is
/// reported and ends the program. Source: the kernel's `kfree`.
///
/// # Safety
/// `ptr` was allocated here, was not freed since, and no thread uses it any more.
#[unsafe(naked)]
pub unsafe extern "C" fn kfree(ptr: *mut u8) {
    // x0: object. x10: slot of CPU 0, then of this one. x11: PERCPU. x12: offset of the rseq area,
    // then gate. x14: CPU, then top. x8: rseq area, scratch. x9: scratch, page.
    naked_asm!(
        ".cfi_startproc",
        crate::landing_pad!(),
        "adrp x12, {memmap}",
        "add x12, x12, :lo12:{memmap}",
        "ldr x9, [x12, {zone}]",
        "sub x9, x0, x9",
        "lsr x9, x9, {page}",
        "ldr x10, [x12, {pages}]",
        "cmp x9, x10",
        "b.hs 9f",
        "ldr x10, [x12, {class}]",
        "add x10, x10, x9, lsl #2",
        "ldrh w10, [x10]",
        "adrp x11, {percpu}",
        "add x11, x11, :lo12:{percpu}",
        "ldr x12, [x11, {base}]",
        "add x10, x10, x12",
        "ldr x12, [x11, {rseq}]",
        crate::section_open!("x14", "x8", "x12"),
        crate::section_cpu!("w14", "x8", "w12", "[x11, {gate}]", "8f"),
        "add x10, x10, x14, lsl {shift}",
        "ldr x14, [x10]",
        crate::section_room!("x14", "w14", "w8", "8f"),
        crate::section_twice!("x14", "x0", "x8", "8f"),
        "str x0, [x14, #-8]!",
        "str x14, [x10]",
        crate::section_close!("{slow}"),
        "ret",
        "8: b {slow}",
        "9: b {on_nodes}",
        ".cfi_endproc",
        entry_end!(),
        memmap = sym MEMMAP,
        zone = const offset_of!(MemMap, zone_base),
        page = const PAGE_SHIFT,
        pages = const offset_of!(MemMap, fast_pages),
        class = const offset_of!(MemMap, class),
        percpu = sym PERCPU,
        base = const offset_of!(PerCpu, base),
        rseq = const offset_of!(PerCpu, rseq_offset),
        gate = const GATE,
        shift = const AREA_SHIFT,
        on_nodes = sym kfree_on_nodes,
        slow = sym kfree_slow,
    )
}

/// Where [`kfree`] jumps with an object beyond its bound. Frees it to the CPU's sheaf if its
/// block is of the CPU's node, and jumps to [`kfree_far`] otherwise.
///
/// # Safety
/// As for [`kfree`]. `x9` is the number of its page.
#[unsafe(naked)]
unsafe extern "C" fn kfree_on_nodes(ptr: *mut u8) {
    // x0: object. x10: slot of CPU 0, then of this one. x11: PERCPU. x12: offset of the rseq area,
    // then gate. x14: CPU, then top. x8: rseq area, scratch. x9: scratch, page.
    // x13: node of the block. x15: area of CPU 0.
    naked_asm!(
        ".cfi_startproc",
        crate::landing_pad!(),
        "adrp x12, {memmap}",
        "add x12, x12, :lo12:{memmap}",
        "lsr x13, x9, {block}",
        "ldr x10, [x12, {blocks}]",
        "cmp x13, x10",
        "b.hs 8f",
        "ldr x10, [x12, {nodes}]",
        "ldrb w13, [x10, x13]",
        "ldr x10, [x12, {class}]",
        "add x10, x10, x9, lsl #2",
        "ldrh w10, [x10]",
        "adrp x11, {percpu}",
        "add x11, x11, :lo12:{percpu}",
        "ldr x15, [x11, {base}]",
        "add x10, x10, x15",
        "ldr x12, [x11, {rseq}]",
        crate::section_open!("x14", "x8", "x12"),
        crate::section_cpu!("w14", "x8", "w12", "[x11, {gate}]", "8f"),
        "add x15, x15, x14, lsl {shift}",
        "ldrb w15, [x15, {node}]",
        "cmp w15, w13",
        "b.ne 9f",
        "add x10, x10, x14, lsl {shift}",
        "ldr x14, [x10]",
        crate::section_room!("x14", "w14", "w8", "8f"),
        crate::section_twice!("x14", "x0", "x8", "8f"),
        "str x0, [x14, #-8]!",
        "str x14, [x10]",
        crate::section_close!("{slow}"),
        "ret",
        "8: b {slow}",
        "9: b {far}",
        ".cfi_endproc",
        entry_end!(),
        block = const BLOCK_ORDER,
        memmap = sym MEMMAP,
        blocks = const offset_of!(MemMap, checked_blocks),
        nodes = const offset_of!(MemMap, block_nodes),
        class = const offset_of!(MemMap, class),
        percpu = sym PERCPU,
        base = const offset_of!(PerCpu, base),
        node = const NODE_OFFSET,
        rseq = const offset_of!(PerCpu, rseq_offset),
        gate = const GATE,
        shift = const AREA_SHIFT,
        far = sym kfree_far,
        slow = sym kfree_slow,
    )
}

/// Where [`kfree_sized`] jumps with a size beyond its bound: on to `kfree` on machines with
/// several nodes and once a profile has run, and to the slow path otherwise.
///
/// # Safety
/// As for [`kfree`].
#[unsafe(naked)]
unsafe extern "C" fn kfree_sized_on_nodes(ptr: *mut u8) {
    naked_asm!(
        ".cfi_startproc",
        crate::landing_pad!(),
        "adrp x9, {by_address}",
        "ldr x9, [x9, :lo12:{by_address}]",
        "cbz x9, 8f",
        "b {kfree}",
        "8: b {slow}",
        ".cfi_endproc",
        by_address = sym SIZED_FREES_BY_ADDRESS,
        kfree = sym kfree,
        slow = sym kfree_slow,
    )
}

/// As [`kfree`], with the requested size, which saves the look-up of the page.
///
/// # Safety
/// As for [`kfree`]; `size` is what [`kmalloc`] was given for this object.
#[unsafe(naked)]
pub unsafe extern "C" fn kfree_sized(ptr: *mut u8, size: usize) {
    // x0: object. x1: size. x10: slot of CPU 0, then of this one. x11: PERCPU. x12: offset of the
    // rseq area, then gate. x14: CPU, then top. x8: rseq area, scratch. x9: scratch, page.
    naked_asm!(
        ".cfi_startproc",
        crate::landing_pad!(),
        "adrp x9, {limit}",
        "ldr x9, [x9, :lo12:{limit}]",
        "cmp x1, x9",
        "b.hs 9f",
        "adrp x9, {sizes}",
        "add x9, x9, :lo12:{sizes}",
        "ldrh w10, [x9, x1, lsl #1]",
        "adrp x11, {percpu}",
        "add x11, x11, :lo12:{percpu}",
        "ldr x12, [x11, {base}]",
        "add x10, x10, x12",
        "ldr x12, [x11, {rseq}]",
        crate::section_open!("x14", "x8", "x12"),
        crate::section_cpu!("w14", "x8", "w12", "[x11, {gate}]", "8f"),
        "add x10, x10, x14, lsl {shift}",
        "ldr x14, [x10]",
        crate::section_room!("x14", "w14", "w8", "8f"),
        crate::section_twice!("x14", "x0", "x8", "8f"),
        "str x0, [x14, #-8]!",
        "str x14, [x10]",
        crate::section_close!("{slow}"),
        "ret",
        "8: b {slow}",
        "9: b {on_nodes}",
        ".cfi_endproc",
        entry_end!(),
        limit = sym SIZED_FREE_LIMIT,
        sizes = sym SIZE_SLOT,
        percpu = sym PERCPU,
        base = const offset_of!(PerCpu, base),
        rseq = const offset_of!(PerCpu, rseq_offset),
        gate = const GATE,
        shift = const AREA_SHIFT,
        on_nodes = sym kfree_sized_on_nodes,
        slow = sym kfree_slow,
    )
}
