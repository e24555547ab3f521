//! `vfork`: the C library's, but for the parent's rseq registration.
//!
//! The child of a vfork runs in the parent's memory and on its thread pointer while the parent sleeps. So it has the
//! parent's rseq area under its hands, but the kernel registers it for nobody: no abort ever comes, and the CPU number
//! in it is where the parent fell asleep. A child that allocates there (which POSIX forbids, and programs do) would
//! share a slot with a thread that really runs on that CPU. So the area is unregistered before; its CPU number is then -1,
//! above the gate, and both processes take slow paths until the parent is back and registers it again.
//!
//! Assembly, as vfork returns twice on one stack: the return address waits in a register, of which each process has
//! its own. `posix_spawn` does not come through here and needs nothing: its child is the C library's code, which does
//! not allocate. What a program makes by `clone` with `CLONE_VM` and without `CLONE_SETTLS` is not covered.

use core::arch::naked_asm;

use ashlar::fork::{RSEQ_SIGNATURE, rseq_area};

/// Bytes that the C library and this library register.
const AREA_BYTES: u32 = 32;
const UNREGISTER: u32 = 1;

extern "C" fn area() -> *mut u8 {
    rseq_area()
}

/// `vfork(2)`.
///
/// # Safety
/// The child may call `_exit` or an `exec` function; it must not return from the function that called this.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> libc::pid_t {
    // System calls keep all registers but rax, rcx and r11. r9: return address. rdi: area, or 0. r8: result.
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {area}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "mov rdi, rax",
        "pop r9",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_register rip, r9",
        "test rdi, rdi",
        "jz 2f",
        "mov esi, {bytes}",
        "mov edx, {unregister}",
        "mov r10d, {signature}",
        "mov eax, {rseq}",
        "syscall",
        "test eax, eax",
        "jz 2f",
        // A C library that registers another size: it stays registered.
        "xor edi, edi",
        "2: mov eax, {vfork}",
        "syscall",
        "test rax, rax",
        "jz 4f",
        "test rdi, rdi",
        "jz 3f",
        "mov r8, rax",
        "xor edx, edx",
        "mov eax, {rseq}",
        "syscall",
        "mov rax, r8",
        "3: cmp rax, -4095",
        "jae 5f",
        "4: push r9",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rip, -8",
        "ret",
        // Failed: only the parent comes here.
        "5: push r9",
        "neg eax",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call qword ptr [rip + __errno_location@GOTPCREL]",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "mov dword ptr [rax], ecx",
        "mov rax, -1",
        "ret",
        ".cfi_endproc",
        area = sym area,
        bytes = const AREA_BYTES,
        unregister = const UNREGISTER,
        signature = const RSEQ_SIGNATURE,
        rseq = const libc::SYS_rseq,
        vfork = const libc::SYS_vfork,
    )
}
