//! A thread's rseq area on aarch64, and the parts of the self-test that are written in assembly;
//! see [`crate::percpu::rseq`].
#![allow(unsafe_code, reason = "inline assembly")]

use core::arch::{asm, global_asm};

use crate::base::sync::AtomicU32;

// Our own area: 32 bytes of static TLS whose CPU number starts as "uninitialised" (-1). The access
// is initial-exec, so the offset from the thread pointer is one constant for all threads.
global_asm!(
    ".pushsection .tdata.ashlar_rseq, \"awT\", %progbits",
    ".balign 32",
    ".globl ashlar_rseq_area",
    ".hidden ashlar_rseq_area",
    ".type ashlar_rseq_area, %object",
    ".size ashlar_rseq_area, 32",
    "ashlar_rseq_area:",
    ".long 0, -1, 0, 0, 0, 0, 0, 0",
    ".popsection",
    ".weak __rseq_offset",
    ".weak __rseq_size",
);

/// Returns the offset of our own area from the thread pointer.
pub(crate) fn own_offset() -> isize {
    let offset: isize;
    // SAFETY: reads the GOT entry that holds the symbol's offset from the thread pointer.
    unsafe {
        asm!(
            "adrp {0}, :gottprel:ashlar_rseq_area",
            "ldr {0}, [{0}, :gottprel_lo12:ashlar_rseq_area]",
            out(reg) offset,
            options(nostack, readonly, preserves_flags)
        );
    }
    offset
}

/// Reads the CPU number, `cpu_id`, of this thread's rseq area at `offset`; negative if the area is
/// not registered.
#[inline(always)]
pub(crate) fn cpu_id(offset: isize) -> i32 {
    let cpu: i32;
    // SAFETY: reads the second word of the thread's rseq area.
    unsafe {
        asm!(
            "mrs {area}, tpidr_el0",
            "add {area}, {area}, {offset}",
            "ldr {cpu:w}, [{area}, #4]",
            area = out(reg) _,
            cpu = lateout(reg) cpu,
            offset = in(reg) offset,
            options(nostack, readonly, preserves_flags)
        );
    }
    cpu
}

/// Sets the CPU number in this thread's area at `offset` to 0. The area is not registered.
pub(crate) fn pretend_cpu_0(offset: isize) {
    // SAFETY: writes the second word of an area of this thread, which the kernel does not know.
    unsafe {
        asm!(
            "mrs {area}, tpidr_el0",
            "add {area}, {area}, {offset}",
            "str wzr, [{area}, #4]",
            area = out(reg) _,
            offset = in(reg) offset,
            options(nostack, preserves_flags)
        );
    }
}

/// Starts a thread that sleeps for `nap`, calls membarrier with `command`, and counts that in
/// `fences`, until `stop` is not 0; `flags` are clone's. The kernel zeroes `tid` when it has ended.
/// Returns its number, or a negative error.
///
/// # Safety
/// `top` is the end of a stack of some words. It and all arguments live until `tid` is 0.
pub(crate) unsafe fn start_helper(
    flags: i32,
    top: *mut u64,
    [tid, stop, fences]: [&AtomicU32; 3],
    nap: &libc::timespec,
    command: u32,
) -> isize {
    let started: isize;
    // SAFETY: the child runs on its own stack, which it does not use. It touches only registers and
    // the words `nap`, `fences` and `stop`, and ends by the exit system call. CLONE_CHILD_CLEARTID
    // then zeroes `tid`, and all of them live until then, by the contract.
    unsafe {
        asm!(
            "svc #0",
            "cbnz x0, 22f",
            "23: mov x8, {clock_nanosleep}",
            "mov x0, {clock}",
            "mov x1, xzr",
            "mov x2, x20",
            "mov x3, xzr",
            "svc #0",
            "mov x8, {membarrier}",
            "mov w0, w21",
            "mov x1, xzr",
            "mov x2, xzr",
            "svc #0",
            "ldr w0, [x22]",
            "add w0, w0, #1",
            "stlr w0, [x22]",
            "ldr w0, [x23]",
            "cbz w0, 23b",
            "mov x8, {exit}",
            "mov x0, xzr",
            "svc #0",
            "brk #1",
            "22:",
            inlateout("x0") i64::from(flags) as isize => started,
            inlateout("x1") top => _,
            inlateout("x2") 0usize => _,
            inlateout("x3") 0usize => _,
            in("x4") tid.as_ptr(),
            inlateout("x8") libc::SYS_clone => _,
            in("x20") &raw const *nap,
            in("x21") command,
            in("x22") fences.as_ptr(),
            in("x23") stop.as_ptr(),
            clock_nanosleep = const libc::SYS_clock_nanosleep,
            clock = const libc::CLOCK_MONOTONIC,
            membarrier = const libc::SYS_membarrier,
            exit = const libc::SYS_exit,
        );
    }
    started
}

/// Spins inside a section for at most `rounds` rounds. Returns true if it was aborted.
pub(crate) fn spin_until_aborted(offset: isize, rounds: u64) -> bool {
    let left: u64;
    // SAFETY: the section only counts a register down. Its abort handler makes the count odd, so
    // not 0, and continues after the section. The signature stands before the handler.
    unsafe {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "77: .long 0, 0",
            ".quad 2f, (3f - 2f), 4f",
            ".popsection",
            "mrs {area}, tpidr_el0",
            "add {area}, {area}, {off}",
            "adrp {t}, 77b",
            "add {t}, {t}, :lo12:77b",
            "str {t}, [{area}, #8]",
            "2: subs {n}, {n}, #1",
            "b.ne 2b",
            "3:",
            "b 6f",
            ".inst 0xd428bc00",
            "4: orr {n}, {n}, #1",
            "6:",
            t = out(reg) _,
            area = out(reg) _,
            n = inout(reg) rounds => left,
            off = in(reg) offset,
            options(nostack),
        );
    }
    left != 0
}
