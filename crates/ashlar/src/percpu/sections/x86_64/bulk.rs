//! The critical sections for many objects at a time for x86-64; the rules are those of
//! [`crate::percpu::sections`].
//!
//! * `pop_all` and `push_all` are the fast paths of the bulk calls: they move all objects, or none.
//! * `pop_batch` and `push_batch` move as many as possible; they are for the slow paths.
//!
//! In the first two, whether the sheaf has enough objects is a branch, which the processor
//! predicts. So the new top, which the next section needs, depends on the old one by one addition.
//! In the other two it also depends on the sheaf's capacity, and four objects at a time cost twice
//! as much.
//!
//! The objects keep their order, with the first of an array on top. So a bulk allocation returns
//! the objects of the last bulk free in the same order.
#![allow(unsafe_code, reason = "inline assembly")]

use core::arch::asm;

use super::{section_close, section_cpu, section_open};
use crate::percpu::area::{AREA_SHIFT, GATE, PERCPU};
use crate::percpu::sheaf::SHEAF_PAGE_BYTES;

/// Bits of a top that are its offset in its sheaf, and the other bits. Correct only for sheaves of
/// a whole page, which all caches that use these sections have.
const PLACE: usize = SHEAF_PAGE_BYTES - 1;
const START: isize = !(PLACE as isize);

/// Copies the words that end at `{$from}` to the words that end at `{$to}`; `{i}` holds minus their
/// number.
///
/// Copies four words at a time, then one, then two. All sections use the same pieces, so each reads
/// words in the pieces in which another wrote them. The processor forwards a store to a load of the
/// same place and size; a load that spans several stores stalls.
macro_rules! copy_words {
    ($from:literal, $to:literal) => {
        concat!(
            "add {i}, 4\njg 5f\n",
            "6: movups {low}, [",
            $from,
            " + {i}*8 - 32]\nmovups {high}, [",
            $from,
            " + {i}*8 - 16]\n",
            "movups [",
            $to,
            " + {i}*8 - 32], {low}\nmovups [",
            $to,
            " + {i}*8 - 16], {high}\n",
            "add {i}, 4\njle 6b\n",
            "5: sub {i}, 4\njz 7f\ntest {i:e}, 1\njz 65f\n",
            "mov {v}, [",
            $from,
            " + {i}*8]\nmov [",
            $to,
            " + {i}*8], {v}\ninc {i}\njz 7f\n",
            "65: movups {low}, [",
            $from,
            " + {i}*8]\nmovups [",
            $to,
            " + {i}*8], {low}\n7:\n"
        )
    };
}

/// Takes `out.len()` objects off this CPU's main sheaf, the top one first. Returns false and takes
/// none if it holds fewer, the gate is closed, or the section is aborted. `slot` is the address of
/// CPU 0's slot.
#[inline(always)]
pub(crate) fn pop_all(slot: usize, rseq_offset: isize, out: &mut [usize]) -> bool {
    // SAFETY: the section reads the slot of the CPU it runs on, which is below the gate. The second
    // byte of the main sheaf's first word is its capacity plus one (1 in the null sheaf); the
    // objects end at that word index. The section continues only if at least `out.len()` objects
    // lie between the top and there, so all copied words are objects. One store commits the new
    // top. After an abort, `out` holds objects that are still in the sheaf, and the caller ignores
    // it.
    unsafe {
        asm!(
            "neg {i}",
            section_open!("{t}", "{off}"),
            section_cpu!("{t:e}", "{off}", "dword ptr [rip + {percpu} + {gate}]", "{no}"),
            "shl {t}, {shift}",
            "mov {v}, [{slot} + {t}]",
            "mov {w}, {v}",
            "and {w}, {start}",
            "mov {top:e}, {v:e}",
            "movzx {w:e}, byte ptr [{w} + 1]",
            "and {top:e}, {place}",
            "shr {top:e}, 3",
            "sub {top}, {i}",
            "cmp {top}, {w}",
            "ja {no}",
            "mov {w}, {i}",
            "neg {w}",
            "lea {top}, [{v} + {w}*8]",
            copy_words!("{top}", "{end}"),
            "mov [{slot} + {t}], {top}",
            section_close!("{no}"),
            t = out(reg) _,
            v = out(reg) _,
            w = out(reg) _,
            top = out(reg) _,
            low = out(xmm_reg) _,
            high = out(xmm_reg) _,
            i = inout(reg) out.len() => _,
            end = in(reg) out.as_mut_ptr_range().end,
            off = in(reg) rseq_offset,
            slot = in(reg) slot,
            percpu = sym PERCPU,
            gate = const GATE,
            shift = const AREA_SHIFT,
            start = const START,
            place = const PLACE,
            no = label { return false },
            options(nostack),
        );
    }
    true
}

/// Puts all of `objects` on this CPU's main sheaf, the first one on top. Returns false and puts
/// none if they do not fit, the gate is closed, or the section is aborted. `slot` is the address of
/// CPU 0's slot.
#[inline(always)]
pub(crate) fn push_all(slot: usize, rseq_offset: isize, objects: &[usize]) -> bool {
    // SAFETY: as for `pop_all`. All words of a sheaf before its top are free except the first, the
    // info word. The section continues only if the objects fit in them. They are written before the
    // commit, so words of an aborted copy lie above the top, where no section reads.
    unsafe {
        asm!(
            "neg {i}",
            section_open!("{t}", "{off}"),
            section_cpu!("{t:e}", "{off}", "dword ptr [rip + {percpu} + {gate}]", "{no}"),
            "shl {t}, {shift}",
            "mov {top}, [{slot} + {t}]",
            "mov {v:e}, {top:e}",
            "and {v:e}, {place}",
            "shr {v:e}, 3",
            "add {v}, {i}",
            "jle {no}",
            "lea {new}, [{top} + {i}*8]",
            copy_words!("{end}", "{top}"),
            "mov [{slot} + {t}], {new}",
            section_close!("{no}"),
            t = out(reg) _,
            v = out(reg) _,
            top = out(reg) _,
            new = out(reg) _,
            low = out(xmm_reg) _,
            high = out(xmm_reg) _,
            i = inout(reg) objects.len() => _,
            end = in(reg) objects.as_ptr_range().end,
            off = in(reg) rseq_offset,
            slot = in(reg) slot,
            percpu = sym PERCPU,
            gate = const GATE,
            shift = const AREA_SHIFT,
            place = const PLACE,
            no = label { return false },
            options(nostack),
        );
    }
    true
}

/// Takes up to `out.len()` objects off this CPU's main sheaf, the top one first. Returns their
/// number, 0 also if the gate is closed or the section is aborted. `slot` is the address of CPU 0's
/// slot.
#[inline(always)]
pub(crate) fn pop_batch(slot: usize, rseq_offset: isize, out: &mut [usize]) -> usize {
    let taken: usize;
    // SAFETY: as for `pop_all`, but the number of words is the smaller one of `out.len()` and the
    // objects between the top and the end.
    unsafe {
        asm!(
            section_open!("{t}", "{off}"),
            section_cpu!("{t:e}", "{off}", "dword ptr [rip + {percpu} + {gate}]", "8f"),
            "shl {t}, {shift}",
            "mov {v}, [{slot} + {t}]",
            "mov {n}, {v}",
            "and {n}, {start}",
            "mov {i}, {v}",
            "movzx {n:e}, byte ptr [{n} + 1]",
            "and {i:e}, {place}",
            "shr {i:e}, 3",
            // The words from the top to the end, which the capacity gives, are objects.
            "sub {n}, {i}",
            "cmp {n}, {max}",
            "cmova {n}, {max}",
            "lea {top}, [{v} + {n}*8]",
            "lea {end}, [{out} + {n}*8]",
            "mov {i}, {n}",
            "neg {i}",
            copy_words!("{top}", "{end}"),
            "mov [{slot} + {t}], {top}",
            section_close!("8f"),
            "9:",
            ".pushsection .text.unlikely.ashlar_rseq, \"ax\", @progbits, unique, .Lashlar_section",
            "8: xor {n:e}, {n:e}",
            "jmp 9b",
            ".popsection",
            t = out(reg) _,
            v = out(reg) _,
            i = out(reg) _,
            top = out(reg) _,
            end = out(reg) _,
            low = out(xmm_reg) _,
            high = out(xmm_reg) _,
            n = out(reg) taken,
            max = in(reg) out.len(),
            out = in(reg) out.as_mut_ptr(),
            off = in(reg) rseq_offset,
            slot = in(reg) slot,
            percpu = sym PERCPU,
            gate = const GATE,
            shift = const AREA_SHIFT,
            start = const START,
            place = const PLACE,
            options(nostack),
        );
    }
    taken
}

/// Puts as many of `objects` on this CPU's main sheaf as fit, the first one on top. Returns their
/// number, 0 also if the gate is closed or the section is aborted. `slot` is the address of CPU 0's
/// slot.
#[inline(always)]
pub(crate) fn push_batch(slot: usize, rseq_offset: isize, objects: &[usize]) -> usize {
    let given: usize;
    // SAFETY: as for `push_all`, but the number of words is the smaller one of `objects.len()` and
    // the free words.
    unsafe {
        asm!(
            section_open!("{t}", "{off}"),
            section_cpu!("{t:e}", "{off}", "dword ptr [rip + {percpu} + {gate}]", "8f"),
            "shl {t}, {shift}",
            "mov {top}, [{slot} + {t}]",
            "mov {n:e}, {top:e}",
            "and {n:e}, {place}",
            "shr {n:e}, 3",
            "dec {n}",
            "cmp {n}, {max}",
            "cmova {n}, {max}",
            "lea {end}, [{objects} + {n}*8]",
            "mov {i}, {n}",
            "neg {i}",
            "lea {new}, [{top} + {i}*8]",
            copy_words!("{end}", "{top}"),
            "mov [{slot} + {t}], {new}",
            section_close!("8f"),
            "9:",
            ".pushsection .text.unlikely.ashlar_rseq, \"ax\", @progbits, unique, .Lashlar_section",
            "8: xor {n:e}, {n:e}",
            "jmp 9b",
            ".popsection",
            t = out(reg) _,
            v = out(reg) _,
            i = out(reg) _,
            top = out(reg) _,
            new = out(reg) _,
            end = out(reg) _,
            low = out(xmm_reg) _,
            high = out(xmm_reg) _,
            n = out(reg) given,
            max = in(reg) objects.len(),
            objects = in(reg) objects.as_ptr(),
            off = in(reg) rseq_offset,
            slot = in(reg) slot,
            percpu = sym PERCPU,
            gate = const GATE,
            shift = const AREA_SHIFT,
            place = const PLACE,
            options(nostack),
        );
    }
    given
}
