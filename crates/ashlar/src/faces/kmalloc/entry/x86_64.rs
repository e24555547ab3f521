//! The entry points of kmalloc for x86-64; see the module above.
#![allow(unsafe_code, reason = "naked functions")]

use crate::base::units::{BLOCK_ORDER, PAGE_SHIFT};
use crate::faces::kmalloc::{kfree_far, kfree_slow, kmalloc_called_from, kmalloc_direct};
use crate::pages::memmap::{MEMMAP, MemMap};
use crate::percpu::area::{AREA_SHIFT, GATE, NODE_OFFSET, PERCPU, PerCpu};
use crate::percpu::sections::{section_close, section_cpu, section_open, section_room, section_twice};
use crate::sizes::kmalloc::{DIRECT_MAX, LIMIT, SIZE_SLOT, SIZED_FREE_LIMIT, SIZED_FREES_BY_ADDRESS};
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
    // rdi: size. r8: slot of CPU 0. rdx: offset of the rseq area. rcx: scratch, then CPU
    // offset. rax: object.
    naked_asm!(
        ".cfi_startproc",
        "cmp rdi, [rip + {limit}]",
        "jae {slow}",
        "lea rcx, [rip + {sizes}]",
        "movzx r8d, word ptr [rcx + rdi*2]",
        "add r8, [rip + {percpu} + {base}]",
        "mov rdx, [rip + {percpu} + {rseq}]",
        section_open!("rcx", "rdx"),
        section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
        "shl rcx, {shift}",
        "mov rax, [r8 + rcx]",
        "mov rax, [rax]",
        "test rax, rax",
        "jz {slow}",
        "add qword ptr [r8 + rcx], 8",
        section_close!("{slow}"),
        "ret",
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

/// Where [`kmalloc`] jumps if its section found no object. Passes on where the call returns to, for
/// sizes that need more than the look-up of their cache.
#[unsafe(naked)]
extern "C" fn kmalloc_slow(size: usize) -> *mut u8 {
    naked_asm!(
        ".cfi_startproc",
        "lea rax, [rdi - 1]",
        "cmp rax, [rip + {direct_max}]",
        "jb {direct}",
        "mov rsi, [rsp]",
        "jmp {rest}",
        ".cfi_endproc",
        direct_max = sym DIRECT_MAX,
        direct = sym kmalloc_direct,
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
    // rdi: object. rax: page, then top. r8: slot of CPU 0. rdx: offset of the rseq area. rcx:
    // CPU offset.
    naked_asm!(
        ".cfi_startproc",
        "mov rax, rdi",
        "sub rax, [rip + {memmap} + {zone}]",
        "shr rax, {page}",
        "cmp rax, [rip + {memmap} + {pages}]",
        "jae {on_nodes}",
        "mov rcx, [rip + {memmap} + {class}]",
        "movzx r8d, word ptr [rcx + rax*4]",
        "add r8, [rip + {percpu} + {base}]",
        "mov rdx, [rip + {percpu} + {rseq}]",
        section_open!("rcx", "rdx"),
        section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
        "shl rcx, {shift}",
        "mov rax, [r8 + rcx]",
        section_room!("rax", "al", "{slow}"),
        section_twice!("rax", "rdi", "{slow}"),
        "mov [rax - 8], rdi",
        "sub qword ptr [r8 + rcx], 8",
        section_close!("{slow}"),
        "ret",
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
/// As for [`kfree`]. `rax` is the number of its page.
#[unsafe(naked)]
unsafe extern "C" fn kfree_on_nodes(ptr: *mut u8) {
    // rdi: object. rax: page, then block, then its node's place, then top. rsi: node. r8: slot
    // of CPU 0. rdx: offset of the rseq area. rcx: CPU offset. r9: area of CPU 0.
    naked_asm!(
        ".cfi_startproc",
        "mov rcx, rax",
        "shr rax, {block}",
        "cmp rax, [rip + {memmap} + {blocks}]",
        "jae {slow}",
        "add rax, [rip + {memmap} + {nodes}]",
        "movzx esi, byte ptr [rax]",
        "mov rdx, [rip + {memmap} + {class}]",
        "movzx r8d, word ptr [rdx + rcx*4]",
        "mov r9, [rip + {percpu} + {base}]",
        "add r8, r9",
        "mov rdx, [rip + {percpu} + {rseq}]",
        section_open!("rcx", "rdx"),
        section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
        "shl rcx, {shift}",
        "cmp byte ptr [r9 + rcx + {node}], sil",
        "jne {far}",
        "mov rax, [r8 + rcx]",
        section_room!("rax", "al", "{slow}"),
        section_twice!("rax", "rdi", "{slow}"),
        "mov [rax - 8], rdi",
        "sub qword ptr [r8 + rcx], 8",
        section_close!("{slow}"),
        "ret",
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
        "cmp qword ptr [rip + {by_address}], 0",
        "jne {kfree}",
        "jmp {slow}",
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
    // rdi: object. rsi: size. r8: slot of CPU 0. rdx: offset of the rseq area. rcx: CPU offset.
    // rax: top.
    naked_asm!(
        ".cfi_startproc",
        "cmp rsi, [rip + {limit}]",
        "jae {on_nodes}",
        "lea rcx, [rip + {sizes}]",
        "movzx r8d, word ptr [rcx + rsi*2]",
        "add r8, [rip + {percpu} + {base}]",
        "mov rdx, [rip + {percpu} + {rseq}]",
        section_open!("rcx", "rdx"),
        section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
        "shl rcx, {shift}",
        "mov rax, [r8 + rcx]",
        section_room!("rax", "al", "{slow}"),
        section_twice!("rax", "rdi", "{slow}"),
        "mov [rax - 8], rdi",
        "sub qword ptr [r8 + rcx], 8",
        section_close!("{slow}"),
        "ret",
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
