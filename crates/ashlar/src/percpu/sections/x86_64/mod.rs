//! The critical sections for x86-64; see the module above.
//!
//! The commit of `pop` and `push` adds to the slot's main word in memory. It is one instruction, so
//! on this CPU it happens entirely or not at all, and no other CPU writes that word. The commit of
//! `exchange` is one 16-byte store, which need not be atomic on the bus for the same reason.
//!
//! The macros take the names of the registers, because the naked entry points of the size classes
//! and the inlined sections of a cache use the same text.
#![allow(unsafe_code, reason = "inline assembly")]

pub(crate) mod bulk;
pub(crate) mod linked;
pub(crate) mod thread;

use core::arch::asm;

use crate::base::units::BLOCK_SIZE;
use crate::pages::memmap::{MEMMAP, MemMap};
use crate::percpu::area::{AREA_SHIFT, GATE, LOCK_OFFSET, NODE_OFFSET, PERCPU, PerCpu, STOPS_OFFSET};

/// Signature that the kernel requires before an abort handler; glibc registers with the same one.
pub(crate) const SIGNATURE: u32 = 0x5305_3053;

/// Opens a section: emits its descriptor and the store that arms it. `$t` is a scratch register;
/// `$off` holds the offset of the rseq area.
///
/// Each descriptor and abort handler has an input section of its own, named by the number. A common
/// input section would keep all functions with sections in every program that links one of them,
/// together with what those functions use.
#[doc(hidden)]
#[macro_export]
macro_rules! section_open {
    ($t:literal, $off:literal) => {
        concat!(
            ".ifndef .Lashlar_section\n.set .Lashlar_section, 0\n.endif\n.set .Lashlar_section, .Lashlar_section + 1\n",
            ".pushsection __rseq_cs, \"aw\", @progbits, unique, .Lashlar_section\n",
            ".balign 32\n77: .long 0, 0\n.quad 2f, (3f - 2f), 4f\n.popsection\n",
            "lea ",
            $t,
            ", [rip + 77b]\nmov fs:[",
            $off,
            " + 8], ",
            $t,
            "\n2:\n"
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
            "3:\n.pushsection .text.unlikely.ashlar_rseq, \"ax\", @progbits, unique, .Lashlar_section\n",
            ".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053\n4: ",
            $undo,
            "jmp ",
            $out,
            "\n.popsection\n"
        )
    };
}
/// Loads this CPU's number into `$t32`, and leaves for `$out` unless it is below the gate.
#[doc(hidden)]
#[macro_export]
macro_rules! section_cpu {
    ($t32:literal, $off:literal, $gate:literal, $out:literal) => {
        concat!("mov ", $t32, ", fs:[", $off, " + 4]\ncmp ", $t32, ", ", $gate, "\njae ", $out, "\n")
    };
}
/// Leaves for `$out` if the sheaf with the top in `$top`, whose lowest byte is `$low`, is full.
///
/// A sheaf is full if the word before its top is an info word. Info words stand at multiples of 256
/// bytes, so only a word at such an address is read. Other words may be in another CPU's cache,
/// where a load would stall and the store that follows does not.
#[doc(hidden)]
#[macro_export]
macro_rules! section_room {
    ($top:literal, $low:literal, $out:literal) => {
        concat!("cmp ", $low, ", 8\njne 5f\ntest byte ptr [", $top, " - 8], 1\njnz ", $out, "\n5:\n")
    };
}
/// Leaves for `$out` if the object in `$object` is the top entry of the sheaf with the top in
/// `$top`: then it is freed a second time, and the slow path says so. The same check protects the
/// kernel's hardened freelists. The entry below a top is 0 if the sheaf is empty.
#[doc(hidden)]
#[macro_export]
macro_rules! section_twice {
    ($top:literal, $object:literal, $out:literal) => {
        concat!("cmp ", $object, ", [", $top, "]\nje ", $out, "\n")
    };
}
pub(crate) use {section_close, section_cpu, section_open, section_room, section_twice};

/// Returns the offset of the rseq area from the thread pointer. It is one load in assembly, because
/// the compiler, which does not see where `PERCPU` is defined, would load its address first.
#[inline(always)]
pub(crate) fn rseq_offset() -> isize {
    let offset: isize;
    // SAFETY: an aligned load of a word of a static.
    unsafe {
        asm!(
            "mov {offset}, [rip + {percpu} + {field}]",
            offset = out(reg) offset,
            percpu = sym PERCPU,
            field = const core::mem::offset_of!(PerCpu, rseq_offset),
            options(nostack, readonly, preserves_flags),
        );
    }
    offset
}

/// Turns the CPU number in `{t}` into the offset of the main sheaf's word from CPU 0's slot. `{v}`
/// is a scratch register.
macro_rules! main_word {
    (plain) => {
        "shl {t}, {shift}"
    };
    // The word whose number is the CPU's side; see `area`.
    (sided) => {
        "mov {v:e}, {t:e}\nand {v:e}, 1\nshl {t}, {shift}\nlea {t}, [{t} + {v}*8]"
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
                section_open!("{t}", "{off}"),
                section_cpu!("{t:e}", "{off}", "dword ptr [rip + {percpu} + {gate}]", "8f"),
                main_word!($layout),
                "mov {v}, [{slot} + {t}]",
                "mov {v}, [{v}]",
                "test {v}, {v}",
                "jz 3f",
                "add qword ptr [{slot} + {t}], 8",
                section_close!("8f"),
                "9:",
                ".pushsection .text.unlikely.ashlar_rseq, \"ax\", @progbits, unique, .Lashlar_section",
                "8: xor {v:e}, {v:e}",
                "jmp 9b",
                ".popsection",
                t = out(reg) _,
                v = out(reg) object,
                off = in(reg) $rseq_offset,
                slot = in(reg) $slot,
                percpu = sym PERCPU,
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
        section_twice!("{v}", "{object}", "{no}")
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
                section_open!("{t}", "{off}"),
                section_cpu!("{t:e}", "{off}", "dword ptr [rip + {percpu} + {gate}]", "{no}"),
                main_word!($layout),
                "mov {v}, [{slot} + {t}]",
                section_room!("{v}", "{v:l}", "{no}"),
                second_free!($check),
                "mov [{v} - 8], {object}",
                "sub qword ptr [{slot} + {t}], 8",
                section_close!("{no}"),
                t = out(reg) _,
                v = out(reg) _,
                object = in(reg) $object,
                off = in(reg) $rseq_offset,
                slot = in(reg) $slot,
                percpu = sym PERCPU,
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
            "mov {v}, {object}",
            "sub {v}, [rip + {memmap} + {zone}]",
            "shr {v}, {block}",
            "cmp {v}, [rip + {memmap} + {blocks}]",
            "jae {no}",
            "add {v}, [rip + {memmap} + {nodes}]",
            "movzx {n:e}, byte ptr [{v}]",
            section_open!("{t}", "{off}"),
            section_cpu!("{t:e}", "{off}", "dword ptr [rip + {percpu} + {gate}]", "{no}"),
            "shl {t}, {shift}",
            "mov {v}, [rip + {percpu} + {base}]",
            "cmp byte ptr [{v} + {t} + {node}], {n:l}",
            "jne {no}",
            "mov {v}, [{slot} + {t}]",
            section_room!("{v}", "{v:l}", "{no}"),
            section_twice!("{v}", "{object}", "{no}"),
            "mov [{v} - 8], {object}",
            "sub qword ptr [{slot} + {t}], 8",
            section_close!("{no}"),
            t = out(reg) _,
            v = out(reg) _,
            n = out(reg) _,
            object = in(reg) object,
            off = in(reg) rseq_offset(),
            slot = in(reg) slot,
            memmap = sym MEMMAP,
            zone = const core::mem::offset_of!(MemMap, zone_base),
            blocks = const core::mem::offset_of!(MemMap, checked_blocks),
            nodes = const core::mem::offset_of!(MemMap, block_nodes),
            block = const BLOCK_SIZE.ilog2(),
            percpu = sym PERCPU,
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
            section_open!("{t}", "{off}"),
            "mov {cpu:e}, fs:[{off} + 4]",
            "cmp {cpu:e}, dword ptr [rip + {percpu} + {gate}]",
            "jae 8f",
            "mov {t}, {cpu}",
            "shl {t}, {shift}",
            "mov {first}, [{slot} + {t}]",
            "mov {second}, [{slot} + {t} + 8]",
            section_close!("8f"),
            "9:",
            ".pushsection .text.unlikely.ashlar_rseq, \"ax\", @progbits, unique, .Lashlar_section",
            "8: mov {cpu}, -1",
            "jmp 9b",
            ".popsection",
            t = out(reg) _,
            cpu = out(reg) cpu,
            first = out(reg) first,
            second = out(reg) second,
            off = in(reg) rseq_offset(),
            slot = in(reg) slot,
            percpu = sym PERCPU,
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
    // inside the section. Slots are 16-byte aligned. The new pair is built in a register before the
    // section.
    unsafe {
        asm!(
            "movq {pair}, {new0}",
            "movq {high}, {new1}",
            "punpcklqdq {pair}, {high}",
            section_open!("{t}", "{off}"),
            section_cpu!("{t:e}", "{off}", "dword ptr [rip + {percpu} + {gate}]", "{no}"),
            "cmp {t:e}, {cpu:e}",
            "jne {no}",
            "shl {t}, {shift}",
            "cmp [{slot} + {t}], {old0}",
            "jne {no}",
            "cmp [{slot} + {t} + 8], {old1}",
            "jne {no}",
            "movdqa [{slot} + {t}], {pair}",
            section_close!("{no}"),
            t = out(reg) _,
            pair = out(xmm_reg) _,
            high = out(xmm_reg) _,
            cpu = in(reg) cpu,
            old0 = in(reg) old[0],
            old1 = in(reg) old[1],
            new0 = in(reg) new[0],
            new1 = in(reg) new[1],
            off = in(reg) rseq_offset(),
            slot = in(reg) slot,
            percpu = sym PERCPU,
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
            section_open!("{t}", "{off}"),
            section_cpu!("{cpu:e}", "{off}", "dword ptr [rip + {percpu} + {cpus}]", "8f"),
            "mov {t}, {cpu}",
            "shl {t}, {shift}",
            "cmp dword ptr [{base} + {t} + {stops}], 0",
            "jne 8f",
            "cmp qword ptr [{base} + {t} + {lock}], 0",
            "jne 8f",
            "mov [{base} + {t} + {lock}], {me}",
            section_close!("8f"),
            "9:",
            ".pushsection .text.unlikely.ashlar_rseq, \"ax\", @progbits, unique, .Lashlar_section",
            "8: mov {cpu}, -1",
            "jmp 9b",
            ".popsection",
            t = out(reg) _,
            cpu = out(reg) cpu,
            off = in(reg) rseq_offset(),
            base = in(reg) base,
            me = in(reg) me,
            percpu = sym PERCPU,
            cpus = const core::mem::offset_of!(PerCpu, cpus),
            shift = const AREA_SHIFT,
            stops = const STOPS_OFFSET,
            lock = const LOCK_OFFSET,
            options(nostack),
        );
    }
    u32::try_from(cpu).ok()
}
