//! The critical sections of a CPU slab, whose freelist is linked through the free objects.
//!
//! A per-CPU slot describes the CPU slab by two words: the index of the first free object
//! ([`NO_OBJECT`] for none) and the address of the slab (0 for none). `pop` follows the link of the
//! first object, `push` writes one. They replace `cmpxchg_local` of the kernel's SLUB. They take no
//! lock and execute no atomic read-modify-write; one store commits.
//!
//! The rules are those of [`super::sections`]. Links are encoded as in [`crate::slab::freelist`]
//! and decoded in the same way with one exception: an index is compared with 2^16, not with the
//! slab's number of objects. A link that does not decode ends the section without a commit. Then
//! the slow path reads it again and reports it.
#![allow(unsafe_code, reason = "inline assembly")]

use core::arch::asm;

use super::area::{AREA_SHIFT, PERCPU};
use super::sections::{GATE, section_close, section_cpu, section_open};
use crate::base::units::NO_OBJECT;

/// How a cache encodes its links and where its objects hold them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) secret: u64,
    pub(crate) stride: usize,
    pub(crate) link_offset: usize,
}

/// Takes the first object off the freelist of this CPU's slab, where `slot` is the address of CPU
/// 0's slot. Returns 0 if there is no object, its link is corrupt, the gate is closed, or the
/// section is aborted.
#[inline(always)]
pub(crate) fn pop(slot: usize, rseq_offset: isize, shape: Shape) -> usize {
    let object: usize;
    // SAFETY: the section reads the slot of the CPU it runs on; that CPU is below the gate, so the
    // slot lies in the reserved areas. Both words belong together, because they are read as of one
    // moment. An index other than NO_OBJECT names a free object of the slab in the second word. Its
    // link is readable because slab memory is never unmapped. The link holds the index of the next
    // free object or NO_OBJECT, and one store commits it. An abort leaves as an empty freelist
    // does.
    unsafe {
        asm!(
            section_open!("{t}", "{off}"),
            section_cpu!("{t:e}", "{off}", "dword ptr [rip + {percpu} + {gate}]", "8f"),
            "shl {t}, {shift}",
            "mov {v}, [{slot} + {t}]",
            "cmp {v}, {none}",
            "jae 8f",
            "imul {v}, {stride}",
            "add {v}, [{slot} + {t} + 8]",
            "lea {k}, [{v} + {link}]",
            "mov {n}, [{k}]",
            "bswap {k}",
            "xor {n}, {secret}",
            "xor {n}, {k}",
            "cmp {n}, {none}",
            "ja 8f",
            "mov [{slot} + {t}], {n}",
            section_close!("8f"),
            "9:",
            ".pushsection .text.unlikely.ashlar_rseq, \"ax\", @progbits, unique, .Lashlar_section",
            "8: xor {v:e}, {v:e}",
            "jmp 9b",
            ".popsection",
            t = out(reg) _,
            v = out(reg) object,
            k = out(reg) _,
            n = out(reg) _,
            off = in(reg) rseq_offset,
            slot = in(reg) slot,
            stride = in(reg) shape.stride,
            link = in(reg) shape.link_offset,
            secret = in(reg) shape.secret,
            none = const NO_OBJECT,
            percpu = sym PERCPU,
            gate = const GATE,
            shift = const AREA_SHIFT,
            options(nostack),
        );
    }
    object
}

/// An object to be put on a freelist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freed {
    /// Address of its slab.
    pub(crate) slab: usize,
    pub(crate) index: u16,
    /// Address of its link.
    pub(crate) link: usize,
    /// Key that encodes a link at that address, by exclusive or.
    pub(crate) key: u64,
}

/// Puts an object on the freelist of this CPU's slab. Returns false if the object is of another
/// slab, it is already the first of the freelist, the gate is closed, or the section is aborted.
///
/// # Safety
/// The caller may free the object, and `freed` describes it.
#[inline(always)]
pub(crate) unsafe fn push(slot: usize, rseq_offset: isize, freed: Freed) -> bool {
    // SAFETY: as for `pop`. The link is 8 writable bytes of an object that the caller may free, by
    // the contract. So a write by an aborted section overwrites nothing in use.
    unsafe {
        asm!(
            section_open!("{t}", "{off}"),
            section_cpu!("{t:e}", "{off}", "dword ptr [rip + {percpu} + {gate}]", "{no}"),
            "shl {t}, {shift}",
            "cmp [{slot} + {t} + 8], {slab}",
            "jne {no}",
            "mov {n}, [{slot} + {t}]",
            "cmp {n}, {index}",
            "je {no}",
            "xor {n}, {key}",
            "mov [{link}], {n}",
            "mov [{slot} + {t}], {index}",
            section_close!("{no}"),
            t = out(reg) _,
            n = out(reg) _,
            off = in(reg) rseq_offset,
            slot = in(reg) slot,
            slab = in(reg) freed.slab,
            index = in(reg) u64::from(freed.index),
            link = in(reg) freed.link,
            key = in(reg) freed.key,
            percpu = sym PERCPU,
            gate = const GATE,
            shift = const AREA_SHIFT,
            no = label { return false },
            options(nostack),
        );
    }
    true
}
