//! `vfork`: the C library's, but for the parent's rseq registration.
//!
//! The child of a vfork runs in the parent's memory and on its thread pointer while the parent
//! sleeps. So it has the parent's rseq area, but the kernel registers that for the parent alone: no
//! abort ever comes, and the CPU number in it is where the parent fell asleep. A child that
//! allocates there (which POSIX forbids, and programs do) would share a slot with a thread that
//! really runs on that CPU. So the area is unregistered before; its CPU number is then -1, above
//! the gate, and both processes take slow paths until the parent is back and registers it again.
//! Where the kernel refuses that, all threads take slow paths until then.
//!
//! Assembly, as vfork returns twice on one stack: the return address waits in a register, of which
//! each process has its own. `posix_spawn` does not come through here and needs nothing: its child
//! is the C library's code, which does not allocate. What a program makes by `clone` with
//! `CLONE_VM` and without `CLONE_SETTLS` is not covered.

use core::arch::naked_asm;

use ashlar::fork::{after_vfork, before_vfork};

/// `vfork(2)`.
///
/// # Safety
/// The child may call `_exit` or an `exec` function; it must not return from the function that
/// called this.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> libc::pid_t {
    // System calls keep all registers but rax, rcx and r11. r9: return address. rdi, rsi: the
    // registration.
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {before}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "mov rdi, rax",
        "mov rsi, rdx",
        "pop r9",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_register rip, r9",
        "mov eax, {vfork}",
        "syscall",
        "push r9",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rip, -8",
        "test rax, rax",
        "jz 2f",
        // The parent: the stack below belongs to it again.
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "call {after}",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        "cmp rax, -4095",
        "jae 3f",
        "2: ret",
        // Failed: only the parent comes here.
        "3: neg eax",
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "call qword ptr [rip + __errno_location@GOTPCREL]",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "mov dword ptr [rax], ecx",
        "mov rax, -1",
        "ret",
        ".cfi_endproc",
        before = sym before_vfork,
        after = sym after_vfork,
        vfork = const libc::SYS_vfork,
    )
}
