//! A thread's rseq area on x86-64, and the parts of the self-test that are written in assembly; see
//! [`crate::percpu::rseq`].
#![allow(unsafe_code, reason = "inline assembly")]

use core::arch::{asm, global_asm};

use crate::base::sync::AtomicU32;

// Our own area: 32 bytes of static TLS whose CPU number starts as "uninitialised" (-1). The access
// is initial-exec, so the offset from the thread pointer is one constant for all threads.
global_asm!(
    ".pushsection .tdata.ashlar_rseq, \"awT\", @progbits",
    ".balign 32",
    ".globl ashlar_rseq_area",
    ".hidden ashlar_rseq_area",
    ".type ashlar_rseq_area, @object",
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
    unsafe { asm!("mov {}, [rip + ashlar_rseq_area@GOTTPOFF]", out(reg) offset, options(nostack, readonly)) };
    offset
}

/// Reads the CPU number, `cpu_id`, of this thread's rseq area at `offset`; negative if the area is
/// not registered.
#[inline(always)]
pub(crate) fn cpu_id(offset: isize) -> i32 {
    let cpu: i32;
    // SAFETY: reads the second word of the thread's rseq area.
    unsafe { asm!("mov {0:e}, fs:[{1} + 4]", out(reg) cpu, in(reg) offset, options(nostack, readonly)) };
    cpu
}

/// Sets the CPU number in this thread's area at `offset` to 0. The area is not registered.
pub(crate) fn pretend_cpu_0(offset: isize) {
    // SAFETY: writes the second word of an area of this thread, which the kernel does not know.
    unsafe { asm!("mov dword ptr fs:[{0} + 4], 0", in(reg) offset, options(nostack)) };
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
            "syscall",
            "test rax, rax",
            "jnz 22f",
            "23: mov eax, {clock_nanosleep}",
            "mov edi, {clock}",
            "xor esi, esi",
            "mov rdx, r14",
            "xor r10d, r10d",
            "syscall",
            "mov eax, {membarrier}",
            "mov edi, r15d",
            "xor esi, esi",
            "xor edx, edx",
            "syscall",
            "inc dword ptr [r13]",
            "cmp dword ptr [r12], 0",
            "je 23b",
            "mov eax, {exit}",
            "xor edi, edi",
            "syscall",
            "ud2",
            "22:",
            inlateout("rax") libc::SYS_clone as isize => started,
            in("rdi") flags,
            in("rsi") top,
            in("rdx") 0usize,
            in("r10") tid.as_ptr(),
            in("r8") 0usize,
            in("r12") stop.as_ptr(),
            in("r13") fences.as_ptr(),
            in("r15") command,
            in("r14") &raw const *nap,
            clock_nanosleep = const libc::SYS_clock_nanosleep,
            clock = const libc::CLOCK_MONOTONIC,
            membarrier = const libc::SYS_membarrier,
            exit = const libc::SYS_exit,
            out("rcx") _,
            out("r11") _,
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
            "lea {t}, [rip + 77b]",
            "mov fs:[{off} + 8], {t}",
            "2: sub {n}, 1",
            "jnz 2b",
            "3:",
            "jmp 6f",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "4:",
            "or {n}, 1",
            "6:",
            t = out(reg) _,
            n = inout(reg) rounds => left,
            off = in(reg) offset,
            options(nostack),
        );
    }
    left != 0
}
