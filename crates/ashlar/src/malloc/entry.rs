//! The entry points `malloc` and `free` with their fast paths; see [`crate::kmalloc::entry`], whose sections these are.
//!
//! Two things come on top, so that misuse is caught in every build:
//! * `free` checks that an object starts at the address, by one multiplication: with the reciprocal M = ceil(2^32 / stride),
//!   an offset is a multiple of the stride exactly if (offset * M mod 2^32) < M, as long as offset * stride is
//!   below 2^32 (Lemire, Kaser, Kurz 2019). Slabs are aligned to their size, so the offset is the low bits of the address.
//! * `free` looks for the *freed mark* in the object's first word and leaves it there; `malloc` clears it. A mark
//!   that is found is only a suspicion: the slow path makes sure (see [`super::check`]).
#![allow(unsafe_code, reason = "naked functions")]

#[cfg(all(target_arch = "x86_64", feature = "os"))]
use super::free_marked;
use super::{free_slow, malloc_slow};
use crate::percpu::area::MAX_CACHES;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// Sizes below this take the fast path; 0 until malloc's caches exist: no section may run before the boot.
pub(crate) static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// What `free` needs to know of a cache: mask of the offset inside a slab, reciprocal of the stride. All zeros lead
/// to the slow path. Sixteen bytes, as a slot, so that the slot's offset finds it.
#[repr(C, align(16))]
struct Check([AtomicU32; 4]);

static CHECKS: [Check; MAX_CACHES + 2] = [const { Check([const { AtomicU32::new(0) }; 4]) }; MAX_CACHES + 2];

/// Lets `free` take objects of the cache at `slot` on its fast path.
pub(crate) fn enable(slot: u16, slab_bytes: usize, stride: usize) {
    let Check([mask, reciprocal, ..]) = &CHECKS[usize::from(slot) / 16];
    mask.store(slab_bytes as u32 - 1, Ordering::Relaxed);
    if (slab_bytes - 1) * stride < 1 << 32 {
        reciprocal.store((1u64 << 32).div_ceil(stride as u64) as u32, Ordering::Relaxed);
    }
}

/// True if `offset` passes the multiplication of the fast path, for tests.
#[cfg(test)]
pub(crate) fn passes(slot: u16, address: usize) -> bool {
    let Check([mask, reciprocal, ..]) = &CHECKS[usize::from(slot) / 16];
    let m = reciprocal.load(Ordering::Relaxed);
    (address as u32 & mask.load(Ordering::Relaxed)).wrapping_mul(m) < m
}

#[cfg(all(target_arch = "x86_64", feature = "os"))]
mod fast {
    use super::{CHECKS, LIMIT, free_marked, free_slow, malloc_slow};
    use crate::malloc::SIZE_SLOT;
    use crate::page::memmap::{MEMMAP, MemMap};
    use crate::percpu::area::{AREA_SHIFT, PERCPU, PerCpu};
    use crate::percpu::sections::{FULL_MASK, GATE, section_close, section_cpu, section_open};
    use core::arch::naked_asm;
    use core::mem::offset_of;

    /// Memory of at least `size` bytes at a multiple of 16; null, and `errno` is `ENOMEM`, when there is none.
    /// A size of 0 gets memory too.
    #[unsafe(naked)]
    pub extern "C" fn malloc(size: usize) -> *mut u8 {
        // rdi: size. r8: slot of CPU 0. rdx: offset of the rseq area. rcx: scratch, then CPU offset. rax: object.
        naked_asm!(
            "cmp rdi, [rip + {limit}]",
            "jae {slow}",
            "lea eax, [rdi + 15]",
            "shr eax, 4",
            "lea rcx, [rip + {sizes}]",
            "movzx r8d, word ptr [rcx + rax*2]",
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
            section_close!(),
            "mov qword ptr [rax], 0",
            "ret",
            ".p2align 6",
            limit = sym LIMIT,
            sizes = sym SIZE_SLOT,
            percpu = sym PERCPU,
            base = const offset_of!(PerCpu, base),
            rseq = const offset_of!(PerCpu, rseq_offset),
            gate = const GATE,
            shift = const AREA_SHIFT,
            slow = sym malloc_slow,
        )
    }

    /// Gives memory back. Null is ignored; what is not a live object's address is reported and ends the program.
    ///
    /// # Safety
    /// `ptr` is null or was allocated here, was not freed since, and nobody uses it any more.
    #[unsafe(naked)]
    pub unsafe extern "C" fn free(ptr: *mut u8) {
        // rdi: object. rax: page, offset, then top. r8: slot offset, then slot of CPU 0. rcx: table, reciprocal, then
        // CPU offset. rdx: offset of the rseq area.
        naked_asm!(
            "mov rax, rdi",
            "sub rax, [rip + {map} + {zone}]",
            "shr rax, 12",
            "cmp rax, [rip + {map} + {pages}]",
            "jae {slow}",
            "mov rcx, [rip + {map} + {class}]",
            "movzx r8d, word ptr [rcx + rax*4]",
            "lea rcx, [rip + {checks}]",
            "mov eax, [rcx + r8]",
            "mov ecx, [rcx + r8 + 4]",
            "and eax, edi",
            "imul eax, ecx",
            "cmp eax, ecx",
            "jae {slow}",
            "add r8, [rip + {percpu} + {base}]",
            "cmp [rdi], r8",
            "je {slow}",
            "mov [rdi], r8",
            "mov rdx, [rip + {percpu} + {rseq}]",
            section_open!("rcx", "rdx"),
            section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{marked}"),
            "shl rcx, {shift}",
            "mov rax, [r8 + rcx]",
            "test eax, {full}",
            "jz {marked}",
            "mov [rax - 8], rdi",
            "sub qword ptr [r8 + rcx], 8",
            section_close!(),
            "ret",
            ".p2align 6",
            map = sym MEMMAP,
            zone = const offset_of!(MemMap, zone_base),
            pages = const offset_of!(MemMap, nr_pages),
            class = const offset_of!(MemMap, class),
            checks = sym CHECKS,
            percpu = sym PERCPU,
            base = const offset_of!(PerCpu, base),
            rseq = const offset_of!(PerCpu, rseq_offset),
            gate = const GATE,
            shift = const AREA_SHIFT,
            full = const FULL_MASK,
            slow = sym free_slow,
            marked = sym free_marked,
        )
    }
}

#[cfg(not(all(target_arch = "x86_64", feature = "os")))]
mod fast {
    use super::{free_slow, malloc_slow};

    /// Memory of at least `size` bytes; see the x86-64 version.
    pub extern "C" fn malloc(size: usize) -> *mut u8 {
        malloc_slow(size)
    }

    /// Gives memory back; see the x86-64 version.
    ///
    /// # Safety
    /// `ptr` is null or was allocated here, was not freed since, and nobody uses it any more.
    pub unsafe extern "C" fn free(ptr: *mut u8) {
        free_slow(ptr);
    }
}

pub use fast::{free, malloc};
