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
//! to another CPU puts its older objects on the spare, and the spare becomes the main sheaf when that is empty.
#![allow(unsafe_code, reason = "naked functions")]

use crate::sync::AtomicUsize;

/// Sizes below this take the fast path; 0 until malloc's caches exist: no section may run before the boot.
pub(crate) static LIMIT: AtomicUsize = AtomicUsize::new(0);

#[cfg(all(target_arch = "x86_64", feature = "os"))]
mod fast {
    use super::LIMIT;
    use crate::malloc::{SIZE_CODE, SLOT_OF_CODE_0, free_slow, free_taken, malloc_slow};
    use crate::page::objmap::{GRAIN, OBJECTS, ObjectMap};
    use crate::percpu::area::{AREA_SHIFT, PERCPU, PerCpu, SIDE_OFFSET};
    use crate::percpu::sections::{FULL_MASK, GATE, section_close, section_cpu, section_open};
    use core::arch::naked_asm;
    use core::mem::offset_of;

    /// Memory of at least `size` bytes at a multiple of 16; null, and `errno` is `ENOMEM`, when there is none.
    /// A size of 0 gets memory too.
    #[unsafe(naked)]
    pub extern "C" fn malloc(size: usize) -> *mut u8 {
        // rdi: size. rsi: code of the class, then entry. rdx: offset of the rseq area, then bias of the map. rcx: scratch, then
        // area of the CPU, then address by grain. rax: object.
        naked_asm!(
            ".cfi_startproc",
            "cmp rdi, [rip + {limit}]",
            "jae {slow}",
            "lea rcx, [rip + {codes}]",
            "movzx esi, byte ptr [rcx + rdi]",
            "mov rdx, [rip + {percpu} + {rseq}]",
            section_open!("rcx", "rdx"),
            section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
            "shl rcx, {shift}",
            "add rcx, [rip + {objects} + {slots}]",
            "mov rax, [rcx + rsi*8]",
            "mov rax, [rax]",
            "test rax, rax",
            "jz {slow}",
            "add qword ptr [rcx + rsi*8], 8",
            section_close!("{slow}"),
            "or esi, [rcx + {side}]",
            "mov rcx, rax",
            "shr rcx, {grain}",
            "mov rdx, [rip + {objects} + {bias}]",
            "mov [rcx + rdx], sil",
            "ret",
            ".cfi_endproc",
            ".p2align 6",
            limit = sym LIMIT,
            codes = sym SIZE_CODE,
            percpu = sym PERCPU,
            rseq = const offset_of!(PerCpu, rseq_offset),
            gate = const GATE,
            shift = const AREA_SHIFT,
            objects = sym OBJECTS,
            slots = const offset_of!(ObjectMap, slots),
            bias = const offset_of!(ObjectMap, bias),
            grain = const GRAIN.ilog2(),
            side = const SIDE_OFFSET - SLOT_OF_CODE_0,
            slow = sym malloc_slow,
        )
    }

    /// Gives memory back. Null is ignored; what is not a live object's address is reported and ends the program.
    ///
    /// # Safety
    /// `ptr` is null or was allocated here, was not freed since, and nobody uses it any more.
    #[unsafe(naked)]
    pub unsafe extern "C" fn free(ptr: *mut u8) {
        // rdi: object. rsi: its entry, then twice the number of the word in the area. rax: place of the entry, then top. rdx: offset of the rseq area. rcx: map, then area
        // of the CPU.
        naked_asm!(
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
            section_open!("rcx", "rdx"),
            section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{taken}"),
            "shl rcx, {shift}",
            "add rcx, [rip + {objects} + {slots}]",
            "xor esi, [rcx + {side}]",
            "mov rax, [rcx + rsi*8]",
            "test eax, {full}",
            "jz {taken}",
            "mov [rax - 8], rdi",
            "sub qword ptr [rcx + rsi*8], 8",
            section_close!("{taken}"),
            "ret",
            ".cfi_endproc",
            ".p2align 6",
            objects = sym OBJECTS,
            zone = const offset_of!(ObjectMap, zone_base),
            entries = const offset_of!(ObjectMap, fast_entries),
            map = const offset_of!(ObjectMap, map),
            slots = const offset_of!(ObjectMap, slots),
            grain = const GRAIN.ilog2(),
            percpu = sym PERCPU,
            rseq = const offset_of!(PerCpu, rseq_offset),
            gate = const GATE,
            shift = const AREA_SHIFT,
            full = const FULL_MASK,
            side = const SIDE_OFFSET - SLOT_OF_CODE_0,
            slow = sym free_slow,
            taken = sym free_taken,
        )
    }
}

#[cfg(not(all(target_arch = "x86_64", feature = "os")))]
mod fast {
    use crate::malloc::{free_slow, malloc_slow};

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
