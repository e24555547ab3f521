//! The critical sections for aarch64; see the module above.
//!
//! The commit of `pop` and `push` is one store of eight bytes. An interrupt may come in the middle
//! of an instruction that stores a pair, so the commit of `exchange` is a store-exclusive of a
//! pair, which happens entirely or not at all. If it fails, the section has changed nothing. No
//! other section has an exclusive or atomic instruction.
//!
//! A conditional branch reaches a mebibyte, and a handler may lie further away. So sections branch
//! within their function, and handlers come back by an unconditional branch.
#![allow(unsafe_code, reason = "inline assembly")]

pub(crate) mod bulk;
pub(crate) mod linked;
pub(crate) mod thread;

use core::arch::asm;

use crate::base::units::BLOCK_SIZE;
use crate::pages::memmap::{MEMMAP, MemMap};
use crate::percpu::area::{AREA_SHIFT, GATE, LOCK_OFFSET, NODE_OFFSET, PERCPU, PerCpu, STOPS_OFFSET};

/// Signature that the kernel requires before an abort handler; glibc registers with the same one.
/// It is the instruction `brk #0x45e0`.
pub(crate) const SIGNATURE: u32 = 0xd428_bc00;

/// The first instruction of a function in assembly that may be called by its address. Where branch
/// targets are enforced (BTI), such a call may arrive nowhere else. Libraries that are not built
/// for that do without it.
#[cfg(ashlar_bti)]
#[doc(hidden)]
#[macro_export]
macro_rules! landing_pad {
    () => {
        "bti c"
    };
}

/// Nothing: this library is not built for machines that enforce branch targets.
#[cfg(not(ashlar_bti))]
#[doc(hidden)]
#[macro_export]
macro_rules! landing_pad {
    () => {
        ""
    };
}

/// Opens a section: puts the address of this thread's rseq area into `$area`, and emits the
/// section's descriptor and the store that arms it. `$t` is a scratch register; `$off` holds the
/// offset of the area.
///
/// Each descriptor and abort handler has an input section of its own, named by the number. A common
/// input section would keep all functions with sections in every program that links one of them,
/// together with what those functions use.
#[doc(hidden)]
#[macro_export]
macro_rules! section_open {
    ($t:literal, $area:literal, $off:literal) => {
        concat!(
            ".ifndef .Lashlar_section\n.set .Lashlar_section, 0\n.endif\n.set .Lashlar_section, .Lashlar_section + 1\n",
            ".pushsection __rseq_cs, \"aw\", %progbits, unique, .Lashlar_section\n",
            ".balign 32\n77: .long 0, 0\n.quad 2f, (3f - 2f), 4f\n.popsection\n",
            "mrs ",
            $area,
            ", tpidr_el0\nadd ",
            $area,
            ", ",
            $area,
            ", ",
            $off,
            "\nadrp ",
            $t,
            ", 77b\nadd ",
            $t,
            ", ",
            $t,
            ", :lo12:77b\nstr ",
            $t,
            ", [",
            $area,
            ", #8]\n2:\n"
        )
    };
}
/// Closes a section right after its commit, and emits the abort handler. The handler runs the
/// instructions `$undo` and leaves for `$out`.
#[doc(hidden)]
#[macro_export]
macro_rules! section_close {
    ($out:literal) => {
        $crate::section_close!($out, "")
    };
    ($out:literal, $undo:literal) => {
        concat!(
            "3:\n.pushsection .text.unlikely.ashlar_rseq, \"ax\", %progbits, unique, .Lashlar_section\n",
            ".inst 0xd428bc00\n4: ",
            $undo,
            "b ",
            $out,
            "\n.popsection\n"
        )
    };
}
/// Loads this CPU's number into `$cpu`, and leaves for `$out` unless it is below the word at
/// `$bound`. `$g` is a scratch register; all three have 32 bits.
#[doc(hidden)]
#[macro_export]
macro_rules! section_cpu {
    ($cpu:literal, $area:literal, $g:literal, $bound:literal, $out:literal) => {
        concat!(
            "ldr ",
            $cpu,
            ", [",
            $area,
            ", #4]\nldr ",
            $g,
            ", ",
            $bound,
            "\ncmp ",
            $cpu,
            ", ",
            $g,
            "\nb.hs ",
            $out,
            "\n"
        )
    };
}
/// Leaves for `$out` if the sheaf with the top in `$top` is full. `$s` is a scratch register of 32
/// bits, and `$low` the name of 32 bits of `$top`.
///
/// A sheaf is full if the word before its top is an info word. Info words stand at multiples of 256
/// bytes, so only a word at such an address is read. Other words may be in another CPU's cache,
/// where a load would stall and the store that follows does not.
#[doc(hidden)]
#[macro_export]
macro_rules! section_room {
    ($top:literal, $low:literal, $s:literal, $out:literal) => {
        concat!(
            "and ",
            $s,
            ", ",
            $low,
            ", #0xff\ncmp ",
            $s,
            ", #8\nb.ne 5f\nldurb ",
            $s,
            ", [",
            $top,
            ", #-8]\ntst ",
            $s,
            ", #1\nb.ne ",
            $out,
            "\n5:\n"
        )
    };
}
/// Leaves for `$out` if the object in `$object` is the top entry of the sheaf with the top in
/// `$top`: then it is freed a second time, and the slow path says so. The same check protects the
/// kernel's hardened freelists. The entry below a top is 0 if the sheaf is empty. `$s` is a scratch
/// register.
#[doc(hidden)]
#[macro_export]
macro_rules! section_twice {
    ($top:literal, $object:literal, $s:literal, $out:literal) => {
        concat!("ldr ", $s, ", [", $top, "]\ncmp ", $s, ", ", $object, "\nb.eq ", $out, "\n")
    };
}
pub(crate) use {section_close, section_cpu, section_open};

/// Returns the offset of the rseq area from the thread pointer.
#[inline(always)]
pub(crate) fn rseq_offset() -> isize {
    PERCPU.rseq_offset.load(crate::base::sync::Ordering::Relaxed)
}

/// Turns the CPU number in `{t}` into the address of the main sheaf's word. `{v}` is a scratch
/// register.
macro_rules! main_word {
    (plain) => {
        "add {t}, {slot}, {t}, lsl {shift}"
    };
    // The word whose number is the CPU's side; see `area`.
    (sided) => {
        "and {g}, {t}, #1\nadd {t}, {slot}, {t}, lsl {shift}\nadd {t}, {t}, {g}, lsl #3"
    };
}

macro_rules! pop {
    ($layout:ident, $slot:ident, $rseq_offset:ident) => {{
        let object: usize;
        // SAFETY: the section reads the slot of the CPU it runs on; that CPU is below the gate, so
        // the slot lies in the reserved areas. The top entry of its main sheaf is always a readable
        // word, an object or the sentinel 0. The section commits only after it has read an object,
        // so the entry below exists. An abort leaves as an empty sheaf does.
        unsafe {
            asm!(
                "mov {v}, xzr",
                section_open!("{t}", "{area}", "{off}"),
                section_cpu!("{t:w}", "{area}", "{g:w}", "[{percpu}, {gate}]", "3f"),
                main_word!($layout),
                "ldr {g}, [{t}]",
                "ldr {v}, [{g}]",
                "cbz {v}, 3f",
                "add {g}, {g}, #8",
                "str {g}, [{t}]",
                section_close!("3b", "mov {v}, xzr\n"),
                t = out(reg) _,
                g = out(reg) _,
                area = out(reg) _,
                v = out(reg) object,
                off = in(reg) $rseq_offset,
                slot = in(reg) $slot,
                percpu = in(reg) &raw const PERCPU,
                gate = const GATE,
                shift = const AREA_SHIFT,
                options(nostack),
            );
        }
        object
    }};
}

/// What a push compares before it writes.
macro_rules! second_free {
    (checked) => {
        section_twice!("{g}", "{object}", "{area}", "{no}")
    };
    (trusted) => {
        ""
    };
}

macro_rules! push {
    ($layout:ident, $check:ident, $slot:ident, $rseq_offset:ident, $object:ident) => {{
        // SAFETY: as for `pop`. The word above a top is free or, if it is odd, the info word. The
        // entry is written before the commit, so an aborted write lands above the top, where no
        // section reads.
        unsafe {
            asm!(
                section_open!("{t}", "{area}", "{off}"),
                section_cpu!("{t:w}", "{area}", "{g:w}", "[{percpu}, {gate}]", "{no}"),
                main_word!($layout),
                "ldr {g}, [{t}]",
                section_room!("{g}", "{g:w}", "{area:w}", "{no}"),
                second_free!($check),
                "str {object}, [{g}, #-8]!",
                "str {g}, [{t}]",
                section_close!("{no}"),
                t = out(reg) _,
                g = out(reg) _,
                area = out(reg) _,
                object = in(reg) $object,
                off = in(reg) $rseq_offset,
                slot = in(reg) $slot,
                percpu = in(reg) &raw const PERCPU,
                gate = const GATE,
                shift = const AREA_SHIFT,
                no = label { return false },
                options(nostack),
            );
        }
        true
    }};
}

/// Takes the top object of this CPU's main sheaf, where `slot` is the address of CPU 0's slot.
/// Returns 0 if it is empty, the gate is closed, or the section is aborted.
#[inline(always)]
pub(crate) fn pop(slot: usize, rseq_offset: isize) -> usize {
    pop!(plain, slot, rseq_offset)
}

/// As [`pop()`], for a slot that [is sided](crate::percpu::area::is_sided).
pub(crate) fn pop_sided(slot: usize, rseq_offset: isize) -> usize {
    pop!(sided, slot, rseq_offset)
}

/// Puts an object on this CPU's main sheaf. Returns false if it is full, the gate is closed, the
/// object is the one that was freed last, or the section is aborted.
#[inline(always)]
pub(crate) fn push(slot: usize, rseq_offset: isize, object: usize) -> bool {
    push!(plain, checked, slot, rseq_offset, object)
}

/// As [`push()`], without the comparison with the object that was freed last.
#[inline(always)]
pub(crate) fn push_trusted(slot: usize, rseq_offset: isize, object: usize) -> bool {
    push!(plain, trusted, slot, rseq_offset, object)
}

/// As [`push()`], for a slot that [is sided](crate::percpu::area::is_sided).
pub(crate) fn push_sided(slot: usize, rseq_offset: isize, object: usize) -> bool {
    push!(sided, checked, slot, rseq_offset, object)
}

/// As [`push()`], of an object of the zone whose block is of this CPU's node. Returns false also
/// for other objects, and if [frees](crate::pages::memmap::FastFrees) do not compare nodes.
#[inline(always)]
pub(crate) fn push_of_node(slot: usize, object: usize) -> bool {
    // SAFETY: as for `push`. The block's number is below `checked_blocks`, so its byte in the table
    // is committed. The byte of the area is written at start-up alone.
    unsafe {
        asm!(
            "ldr {g}, [{memmap}, {zone}]",
            "sub {g}, {object}, {g}",
            "lsr {g}, {g}, {block}",
            "ldr {n}, [{memmap}, {blocks}]",
            "cmp {g}, {n}",
            "b.hs {no}",
            "ldr {n}, [{memmap}, {nodes}]",
            "ldrb {n:w}, [{n}, {g}]",
            section_open!("{t}", "{area}", "{off}"),
            section_cpu!("{t:w}", "{area}", "{g:w}", "[{percpu}, {gate}]", "{no}"),
            "ldr {g}, [{percpu}, {base}]",
            "add {g}, {g}, {t}, lsl {shift}",
            "ldrb {g:w}, [{g}, {node}]",
            "cmp {g:w}, {n:w}",
            "b.ne {no}",
            "add {t}, {slot}, {t}, lsl {shift}",
            "ldr {g}, [{t}]",
            section_room!("{g}", "{g:w}", "{area:w}", "{no}"),
            section_twice!("{g}", "{object}", "{area}", "{no}"),
            "str {object}, [{g}, #-8]!",
            "str {g}, [{t}]",
            section_close!("{no}"),
            t = out(reg) _,
            g = out(reg) _,
            n = out(reg) _,
            area = out(reg) _,
            object = in(reg) object,
            off = in(reg) rseq_offset(),
            slot = in(reg) slot,
            memmap = in(reg) &raw const MEMMAP,
            zone = const core::mem::offset_of!(MemMap, zone_base),
            blocks = const core::mem::offset_of!(MemMap, checked_blocks),
            nodes = const core::mem::offset_of!(MemMap, block_nodes),
            block = const BLOCK_SIZE.ilog2(),
            percpu = in(reg) &raw const PERCPU,
            gate = const GATE,
            base = const core::mem::offset_of!(PerCpu, base),
            node = const NODE_OFFSET,
            shift = const AREA_SHIFT,
            no = label { return false },
            options(nostack),
        );
    }
    true
}

/// Reads this CPU's number and both words of its slot as of one moment. `None` if the gate is
/// closed or the section is aborted.
#[inline]
pub(crate) fn read(slot: usize) -> Option<(u32, [usize; 2])> {
    let (cpu, first, second): (u64, usize, usize);
    // SAFETY: reads the slot of the current CPU, which is below the gate, and writes nothing but
    // `rseq_cs`.
    unsafe {
        asm!(
            "mov {cpu}, #-1",
            section_open!("{t}", "{area}", "{off}"),
            section_cpu!("{t:w}", "{area}", "{first:w}", "[{percpu}, {gate}]", "3f"),
            "add {area}, {slot}, {t}, lsl {shift}",
            "ldr {first}, [{area}]",
            "ldr {second}, [{area}, #8]",
            "mov {cpu}, {t}",
            section_close!("3b", "mov {cpu}, #-1\n"),
            t = out(reg) _,
            area = out(reg) _,
            cpu = out(reg) cpu,
            first = out(reg) first,
            second = out(reg) second,
            off = in(reg) rseq_offset(),
            slot = in(reg) slot,
            percpu = in(reg) &raw const PERCPU,
            gate = const GATE,
            shift = const AREA_SHIFT,
            options(nostack),
        );
    }
    u32::try_from(cpu).ok().map(|cpu| (cpu, [first, second]))
}

/// Replaces both words of `cpu`'s slot if this thread runs there and they equal `old`. Returns
/// false also if the section is aborted.
#[inline]
pub(crate) fn exchange(slot: usize, cpu: u32, old: [usize; 2], new: [usize; 2]) -> bool {
    // SAFETY: writes the slot of the CPU it runs on, which is compared with `cpu` and the gate
    // inside the section. Slots are 16-byte aligned. The commit stores both words or none, and if
    // it stores none its status is 1.
    unsafe {
        asm!(
            section_open!("{t}", "{area}", "{off}"),
            section_cpu!("{t:w}", "{area}", "{g:w}", "[{percpu}, {gate}]", "{no}"),
            "cmp {t:w}, {cpu:w}",
            "b.ne {no}",
            "add {t}, {slot}, {t}, lsl {shift}",
            "ldxp {area}, {g}, [{t}]",
            "cmp {area}, {old0}",
            "ccmp {g}, {old1}, #0, eq",
            "b.ne {no}",
            "stxp {g:w}, {new0}, {new1}, [{t}]",
            section_close!("{no}"),
            "cbnz {g:w}, {no}",
            t = out(reg) _,
            g = out(reg) _,
            area = out(reg) _,
            cpu = in(reg) cpu,
            old0 = in(reg) old[0],
            old1 = in(reg) old[1],
            new0 = in(reg) new[0],
            new1 = in(reg) new[1],
            off = in(reg) rseq_offset(),
            slot = in(reg) slot,
            percpu = in(reg) &raw const PERCPU,
            gate = const GATE,
            shift = const AREA_SHIFT,
            no = label { return false },
            options(nostack),
        );
    }
    true
}

/// Stores `me` to the lock of this CPU if that is free and nothing stops it (see
/// [`crate::percpu::lock`]), and returns the CPU's number; `base` is the address of CPU 0's area.
/// `None` also if the section is aborted, or the thread or the CPU has no area.
#[inline(always)]
pub(crate) fn take_lock(base: usize, me: usize) -> Option<u32> {
    let cpu: u64;
    // SAFETY: the section accesses slot 1 of the CPU that it runs on, which lies in the reserved
    // areas because the number is below theirs. It stores to the lock word only if the lock is free
    // and no thread stops the CPU. Then no thread of another CPU stores there, and no thread of
    // this CPU has run since the comparison.
    unsafe {
        asm!(
            "mov {cpu}, #-1",
            section_open!("{t}", "{area}", "{off}"),
            section_cpu!("{t:w}", "{area}", "{g:w}", "[{percpu}, {cpus}]", "3f"),
            "add {area}, {base}, {t}, lsl {shift}",
            "ldr {g:w}, [{area}, {stops}]",
            "cbnz {g:w}, 3f",
            "ldr {g}, [{area}, {lock}]",
            "cbnz {g}, 3f",
            "mov {cpu}, {t}",
            "str {me}, [{area}, {lock}]",
            section_close!("3b", "mov {cpu}, #-1\n"),
            t = out(reg) _,
            g = out(reg) _,
            area = out(reg) _,
            cpu = out(reg) cpu,
            off = in(reg) rseq_offset(),
            base = in(reg) base,
            me = in(reg) me,
            percpu = in(reg) &raw const PERCPU,
            cpus = const core::mem::offset_of!(PerCpu, cpus),
            shift = const AREA_SHIFT,
            stops = const STOPS_OFFSET,
            lock = const LOCK_OFFSET,
            options(nostack),
        );
    }
    u32::try_from(cpu).ok()
}
