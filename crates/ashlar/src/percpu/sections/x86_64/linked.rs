//! The critical sections of a CPU slab for x86-64; see [`link`](crate::percpu::sections::link).
#![allow(unsafe_code, reason = "inline assembly")]

use core::arch::asm;

use super::{section_close, section_cpu, section_open};
use crate::base::units::NO_OBJECT;
use crate::percpu::area::{AREA_SHIFT, GATE, PERCPU};
use crate::percpu::sections::link::{Freed, Shape};

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
