//! The critical sections for many objects at a time; the rules are those of [`super::sections`].
//!
//! `pop_all` and `push_all` are the fast paths of the bulk calls: all of what was asked for, or nothing. Whether the sheaf has that much
//! is a branch, which the processor predicts; so the new top, on which the next section waits, depends on the old one by one addition.
//! `pop_batch` and `push_batch` move what there is, which makes the new top depend on the sheaf's capacity too (four objects at a time
//! cost twice as much): they are for the slow paths.
//!
//! Objects keep their order: the first of an array lies on top. A bulk that is freed is the next one's that is allocated.
#![allow(unsafe_code, reason = "inline assembly")]

use core::arch::asm;

use super::area::{AREA_SHIFT, PERCPU};
use super::sections::{GATE, section_close, section_cpu, section_open};
use super::sheaf::SHEAF_PAGE_BYTES;

/// The bits of a top that say where in its sheaf it is, and the others: of large sheaves, which all caches have that come here.
const PLACE: usize = SHEAF_PAGE_BYTES - 1;
const START: isize = !(PLACE as isize);

/// The copy of all bulk sections: words that end at `{$from}` to words that end at `{$to}`; `{i}` holds their number, below zero. Four at a
/// time, then one, then two: always the same pieces, so that what one section wrote is read by the other in these (the processor
/// forwards a store to a load of the same place and size, and waits for one that it must put together).
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

/// Takes as many objects as `out` has places off this CPU's main sheaf, the top one first; false, and none taken, when it has not so
/// many, the gate is closed, or on an abort. `slot` is the address of CPU 0's slot.
#[inline(always)]
pub(crate) fn pop_all(slot: usize, rseq_offset: isize, out: &mut [usize]) -> bool {
    // SAFETY: the section reads the slot of the CPU it runs on, below the gate. The second byte of the first word of the main sheaf is its
    // capacity plus one (1 of the null sheaf): so many words from the sheaf's start on end with its objects. It goes on only if as many as are
    // copied lie between the top and there, and `out` has places for them. The new top is committed once; after an abort `out` holds
    // what nobody took.
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

/// Puts all of `objects` on this CPU's main sheaf, the first one on top; false, and none put, when it has no room for them, the gate is
/// closed, or on an abort. `slot` is the address of CPU 0's slot.
#[inline(always)]
pub(crate) fn push_all(slot: usize, rseq_offset: isize, objects: &[usize]) -> bool {
    // SAFETY: as for `push`: the words of a sheaf before its top are free, as many as the top is words from the start of the sheaf, but for the first. It
    // goes on only if they are enough. They are written before the commit: after an aborted copy nobody reads them.
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

/// Takes up to `out.len()` objects off this CPU's main sheaf, the top one first; how many: 0 also when the gate is closed, or on an
/// abort. `slot` is the address of CPU 0's slot.
#[inline(always)]
pub(crate) fn pop_batch(slot: usize, rseq_offset: isize, out: &mut [usize]) -> usize {
    let taken: usize;
    // SAFETY: the section reads the slot of the CPU it runs on, below the gate. The second byte of the first word of the main sheaf is its
    // capacity plus one (1 of the null sheaf): so many words from the sheaf's start on end with its objects. Those that are copied lie between
    // the top and there, and `out` has places for them. The new top is committed once; after an abort `out` holds what nobody took.
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
            // What the capacity leaves below the place of the top are objects.
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

/// Puts the first of `objects` on this CPU's main sheaf, as many as there is room for, the very first one on top; how many: 0 also when
/// the gate is closed, or on an abort. `slot` is the address of CPU 0's slot.
#[inline(always)]
pub(crate) fn push_batch(slot: usize, rseq_offset: isize, objects: &[usize]) -> usize {
    let given: usize;
    // SAFETY: as for `push`: the words of a sheaf before its top are free, as many as the top is words from the start of the sheaf,
    // but for the first. They are written before the commit: after an aborted copy nobody reads them.
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
