//! The critical sections of a CPU slab: its freelist runs through the free objects themselves.
//!
//! Two words of a per-CPU slot say what the CPU slab is: the index of the first free object ([`NO_OBJECT`] for none)
//! and the address of the slab (0 for none). `pop` follows the link of the first object, `push` writes one. They are what
//! `cmpxchg_local` is in the kernel's SLUB: no lock, no atomic read-modify-write, one store commits.
//!
//! The rules are those of [`super::sections`]. The links are those of [`crate::slab::freelist`], decoded here in the same
//! way but for one thing: an index is not compared with the slab's number of objects, only with 2^16. A link that does
//! not decode ends the section without a commit, and the slow path looks at it again and reports it.
#![allow(unsafe_code, reason = "inline assembly")]

use core::arch::asm;

use super::area::{AREA_SHIFT, PERCPU};
use super::sections::{GATE, section_close, section_cpu, section_open};
use crate::base::units::NO_OBJECT;

/// What a cache's links look like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) secret: u64,
    pub(crate) stride: usize,
    pub(crate) link_offset: usize,
}

/// Takes the first object off the freelist of this CPU's slab, where `slot` is the address of CPU 0's slot; 0 when there
/// is none, when its link is corrupt, when the gate is closed, and on an abort.
#[inline(always)]
pub(crate) fn pop(slot: usize, rseq_offset: isize, shape: Shape) -> usize {
    let object: usize;
    // SAFETY: the section reads the slot of the CPU it runs on (below the gate, so inside the reserved areas). An index that
    // is not NO_OBJECT is that of a free object of the slab whose address is the second word, both as of one moment, so
    // its link is readable: slab memory is never unmapped. It commits the index that the link held, which is that of the
    // next free object or NO_OBJECT, with one store. An abort leaves as an empty freelist does.
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

/// An object that is to go on a freelist.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freed {
    /// Address of its slab.
    pub(crate) slab: usize,
    pub(crate) index: u16,
    /// Address of its link.
    pub(crate) link: usize,
    /// What a link there is exclusive-or'ed with.
    pub(crate) key: u64,
}

/// Puts an object on the freelist of this CPU's slab; false when it is of another slab, when it is the first of the
/// freelist already, when the gate is closed, and on an abort.
///
/// # Safety
/// The object is the caller's to free, and `freed` describes it.
#[inline(always)]
pub(crate) unsafe fn push(slot: usize, rseq_offset: isize, freed: Freed) -> bool {
    // SAFETY: as for `pop`; the link is 8 writable bytes of an object that is the caller's by its promise, so an aborted
    // write there harms nobody.
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
