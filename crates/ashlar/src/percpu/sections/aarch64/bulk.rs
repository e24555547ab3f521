//! The critical sections for many objects at a time for aarch64; the rules are those of
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

/// Bits of a top that are not its offset in its sheaf, and the number of bits of its word there.
/// Correct only for sheaves of a whole page, which all caches that use these sections have.
const START: u64 = !(SHEAF_PAGE_BYTES as u64 - 1);
const BITS: u32 = SHEAF_PAGE_BYTES.ilog2() - 3;

/// Copies `{i}` words from `{f}` to `{d}`, one and then two at a time. `{v}` and `{w}` are scratch
/// registers.
macro_rules! copy_words {
    () => {
        concat!(
            "tbz {i}, #0, 6f\nldr {v}, [{f}], #8\nstr {v}, [{d}], #8\n",
            "6: lsr {i}, {i}, #1\ncbz {i}, 7f\n",
            "5: ldp {v}, {w}, [{f}], #16\nstp {v}, {w}, [{d}], #16\nsubs {i}, {i}, #1\nb.ne 5b\n7:\n"
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
            section_open!("{t}", "{area}", "{off}"),
            section_cpu!("{t:w}", "{area}", "{v:w}", "[{percpu}, {gate}]", "{no}"),
            "add {t}, {slot}, {t}, lsl {shift}",
            "ldr {top}, [{t}]",
            "and {w}, {top}, {start}",
            "ldrb {w:w}, [{w}, #1]",
            "ubfx {v}, {top}, #3, {bits}",
            "add {v}, {v}, {n}",
            "cmp {v}, {w}",
            "b.hi {no}",
            "mov {i}, {n}",
            "mov {f}, {top}",
            "mov {d}, {out}",
            copy_words!(),
            "add {top}, {top}, {n}, lsl #3",
            "str {top}, [{t}]",
            section_close!("{no}"),
            t = out(reg) _,
            area = out(reg) _,
            v = out(reg) _,
            w = out(reg) _,
            f = out(reg) _,
            d = out(reg) _,
            top = out(reg) _,
            i = out(reg) _,
            n = in(reg) out.len(),
            out = in(reg) out.as_mut_ptr(),
            off = in(reg) rseq_offset,
            slot = in(reg) slot,
            percpu = in(reg) &raw const PERCPU,
            gate = const GATE,
            shift = const AREA_SHIFT,
            start = const START,
            bits = const BITS,
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
            section_open!("{t}", "{area}", "{off}"),
            section_cpu!("{t:w}", "{area}", "{v:w}", "[{percpu}, {gate}]", "{no}"),
            "add {t}, {slot}, {t}, lsl {shift}",
            "ldr {top}, [{t}]",
            "ubfx {v}, {top}, #3, {bits}",
            "cmp {v}, {n}",
            "b.ls {no}",
            "sub {top}, {top}, {n}, lsl #3",
            "mov {i}, {n}",
            "mov {f}, {objects}",
            "mov {d}, {top}",
            copy_words!(),
            "str {top}, [{t}]",
            section_close!("{no}"),
            t = out(reg) _,
            area = out(reg) _,
            v = out(reg) _,
            w = out(reg) _,
            f = out(reg) _,
            d = out(reg) _,
            top = out(reg) _,
            i = out(reg) _,
            n = in(reg) objects.len(),
            objects = in(reg) objects.as_ptr(),
            off = in(reg) rseq_offset,
            slot = in(reg) slot,
            percpu = in(reg) &raw const PERCPU,
            gate = const GATE,
            shift = const AREA_SHIFT,
            bits = const BITS,
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
            section_open!("{t}", "{area}", "{off}"),
            section_cpu!("{t:w}", "{area}", "{v:w}", "[{percpu}, {gate}]", "8f"),
            "add {t}, {slot}, {t}, lsl {shift}",
            "ldr {top}, [{t}]",
            "and {w}, {top}, {start}",
            "ldrb {w:w}, [{w}, #1]",
            "ubfx {v}, {top}, #3, {bits}",
            // The words from the top to the end, which the capacity gives, are objects.
            "sub {n}, {w}, {v}",
            "cmp {n}, {max}",
            "csel {n}, {n}, {max}, lo",
            "mov {i}, {n}",
            "mov {f}, {top}",
            "mov {d}, {out}",
            copy_words!(),
            "add {top}, {top}, {n}, lsl #3",
            "str {top}, [{t}]",
            section_close!("8f"),
            "b 9f",
            "8: mov {n}, xzr",
            "9:",
            t = out(reg) _,
            area = out(reg) _,
            v = out(reg) _,
            w = out(reg) _,
            f = out(reg) _,
            d = out(reg) _,
            top = out(reg) _,
            i = out(reg) _,
            n = out(reg) taken,
            max = in(reg) out.len(),
            out = in(reg) out.as_mut_ptr(),
            off = in(reg) rseq_offset,
            slot = in(reg) slot,
            percpu = in(reg) &raw const PERCPU,
            gate = const GATE,
            shift = const AREA_SHIFT,
            start = const START,
            bits = const BITS,
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
            section_open!("{t}", "{area}", "{off}"),
            section_cpu!("{t:w}", "{area}", "{v:w}", "[{percpu}, {gate}]", "8f"),
            "add {t}, {slot}, {t}, lsl {shift}",
            "ldr {top}, [{t}]",
            "ubfx {n}, {top}, #3, {bits}",
            "sub {n}, {n}, #1",
            "cmp {n}, {max}",
            "csel {n}, {n}, {max}, lo",
            "sub {top}, {top}, {n}, lsl #3",
            "mov {i}, {n}",
            "mov {f}, {objects}",
            "mov {d}, {top}",
            copy_words!(),
            "str {top}, [{t}]",
            section_close!("8f"),
            "b 9f",
            "8: mov {n}, xzr",
            "9:",
            t = out(reg) _,
            area = out(reg) _,
            v = out(reg) _,
            w = out(reg) _,
            f = out(reg) _,
            d = out(reg) _,
            top = out(reg) _,
            i = out(reg) _,
            n = out(reg) given,
            max = in(reg) objects.len(),
            objects = in(reg) objects.as_ptr(),
            off = in(reg) rseq_offset,
            slot = in(reg) slot,
            percpu = in(reg) &raw const PERCPU,
            gate = const GATE,
            shift = const AREA_SHIFT,
            bits = const BITS,
            options(nostack),
        );
    }
    given
}
