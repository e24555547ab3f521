//! The entry points `kmalloc`, `kfree` and `kfree_sized` with their fast paths.
//!
//! On x86-64 they are naked functions, so that their number of instructions does not depend on the
//! compiler. Their sections are those of [`crate::percpu::sections`]. Each looks up the slot of the
//! cache (by size, or by page), enters the section, takes or puts one pointer, and returns. In all
//! other cases (a size too large, an address outside the zone, an empty or full sheaf, a closed
//! gate, an allocator that has not started) it jumps to the slow path with its arguments unchanged.
#![allow(unsafe_code, reason = "naked functions")]

/// The body of a naked function `unsafe extern "C" fn(*mut u8)` that finds the cache by the page:
/// the fast path of `kfree`, and otherwise a jump to `$slow`, which has the same type.
#[doc(hidden)]
#[macro_export]
macro_rules! kfree_fast_path {
    ($slow:path $(, $line:literal)*) => {
        // rdi: object. rax: page, then top. r8: slot of CPU 0. rdx: offset of the rseq area. rcx:
        // CPU offset.
        core::arch::naked_asm!(
            $($line,)*
            ".cfi_startproc",
            "mov rax, rdi",
            "sub rax, [rip + {memmap} + {zone}]",
            "shr rax, 12",
            "cmp rax, [rip + {memmap} + {pages}]",
            "jae {slow}",
            "mov rcx, [rip + {memmap} + {class}]",
            "movzx r8d, word ptr [rcx + rax*4]",
            "add r8, [rip + {percpu} + {base}]",
            "mov rdx, [rip + {percpu} + {rseq}]",
            $crate::section_open!("rcx", "rdx"),
            $crate::section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
            "shl rcx, {shift}",
            "mov rax, [r8 + rcx]",
            $crate::section_room!("rax", "al", "{slow}"),
            "mov [rax - 8], rdi",
            "sub qword ptr [r8 + rcx], 8",
            $crate::section_close!("{slow}"),
            "ret",
            ".cfi_endproc",
            ".p2align 6",
            memmap = sym $crate::malloc::parts::MEMMAP,
            zone = const $crate::malloc::parts::ZONE,
            pages = const $crate::malloc::parts::PAGES,
            class = const $crate::malloc::parts::CLASS,
            percpu = sym $crate::malloc::parts::PERCPU,
            base = const $crate::malloc::parts::BASE,
            rseq = const $crate::malloc::parts::RSEQ,
            gate = const $crate::malloc::parts::GATE,
            shift = const $crate::malloc::parts::AREA_SHIFT,
            slow = sym $slow,
        )
    };
}

/// The items that the macros of the entry points refer to; see [`crate::malloc::parts`].
#[cfg(all(feature = "os", target_arch = "x86_64"))]
#[expect(missing_docs, reason = "named as the operands of the macro are")]
pub(crate) mod parts {
    pub use crate::pages::memmap::MEMMAP;
    pub use crate::percpu::area::PERCPU;

    use crate::pages::memmap::MemMap;
    use crate::percpu::area::PerCpu;
    use crate::percpu::{area, sections};
    use core::mem::offset_of;

    pub const ZONE: usize = offset_of!(MemMap, zone_base);
    pub const PAGES: usize = offset_of!(MemMap, fast_pages);
    pub const CLASS: usize = offset_of!(MemMap, class);
    pub const BASE: usize = offset_of!(PerCpu, base);
    pub const RSEQ: usize = offset_of!(PerCpu, rseq_offset);
    pub const GATE: usize = sections::GATE;
    pub const AREA_SHIFT: u32 = area::AREA_SHIFT;
}

#[cfg(all(feature = "os", target_arch = "x86_64"))]
mod fast {
    use super::super::{kfree_slow, kmalloc_slow};
    use crate::percpu::area::{AREA_SHIFT, PERCPU, PerCpu};
    use crate::percpu::sections::{GATE, section_close, section_cpu, section_open, section_room};
    use crate::sizes::kmalloc::{LIMIT, SIZE_SLOT, SIZED_FREE_LIMIT};
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

    /// Frees an object of kmalloc, or of any cache. Null and
    /// [`ZERO_SIZE_PTR`](crate::ZERO_SIZE_PTR) are ignored. An address that was never handed out is
    /// reported and ends the program. Source: the kernel's `kfree`.
    ///
    /// # Safety
    /// `ptr` was allocated here, was not freed since, and no thread uses it any more.
    #[unsafe(naked)]
    pub unsafe extern "C" fn kfree(ptr: *mut u8) {
        crate::kfree_fast_path!(kfree_slow)
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
            "jae {slow}",
            "lea rcx, [rip + {sizes}]",
            "movzx r8d, word ptr [rcx + rsi*2]",
            "add r8, [rip + {percpu} + {base}]",
            "mov rdx, [rip + {percpu} + {rseq}]",
            section_open!("rcx", "rdx"),
            section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
            "shl rcx, {shift}",
            "mov rax, [r8 + rcx]",
            section_room!("rax", "al", "{slow}"),
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
            slow = sym kfree_slow,
        )
    }
}

#[cfg(not(all(feature = "os", target_arch = "x86_64")))]
mod fast {
    use super::super::{kfree_slow, kmalloc_slow};

    /// Memory of at least `size` bytes; see the x86-64 version.
    pub extern "C" fn kmalloc(size: usize) -> *mut u8 {
        kmalloc_slow(size)
    }

    /// Gives an object back; see the x86-64 version.
    ///
    /// # Safety
    /// `ptr` was allocated here, was not freed since, and no thread uses it any more.
    pub unsafe extern "C" fn kfree(ptr: *mut u8) {
        unsafe { kfree_slow(ptr) };
    }

    /// As [`kfree`], told the size.
    ///
    /// # Safety
    /// As for [`kfree`]; `size` is what [`kmalloc`] was given for this object.
    pub unsafe extern "C" fn kfree_sized(ptr: *mut u8, size: usize) {
        let _ = size;
        unsafe { kfree_slow(ptr) };
    }
}

pub use fast::{kfree, kfree_sized, kmalloc};
