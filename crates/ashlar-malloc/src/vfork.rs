//! `vfork`: as the C library's, with the parent's rseq registration removed meanwhile.
//!
//! The child of a vfork uses the parent's memory and thread pointer while the parent sleeps. So it
//! uses the parent's rseq area, which the kernel has registered only for the parent. No abort
//! reaches the child, and the CPU number in the area is the CPU where the parent fell asleep. A
//! child that allocates (which POSIX forbids, but programs do) would share a slot with a thread
//! that really runs on that CPU. So the area is unregistered before the vfork. Its CPU number is
//! then -1, which the gate excludes, and both processes take slow paths until the parent resumes
//! and registers the area again. If the kernel refuses to unregister it, all threads take slow
//! paths until then.
//!
//! The function is assembly because vfork returns twice on one stack. The return address is kept in
//! a register, and each process has its own registers. `posix_spawn` does not call this function
//! and does not need it, because its child runs the C library's code, which does not allocate.
//! Children that a program creates by `clone` with `CLONE_VM` and without `CLONE_SETTLS` are not
//! covered.

use core::arch::naked_asm;

use ashlar::fork::{after_vfork, before_vfork};

/// `vfork(2)`.
///
/// # Safety
/// The child may call `_exit` or an `exec` function; it must not return from the function that
/// called this.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> libc::pid_t {
    // System calls preserve all registers but x0. x9, x10: the registration. The return address
    // stays in x30.
    naked_asm!(
        ".cfi_startproc",
        ashlar::landing_pad!(),
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "bl {before}",
        "mov x9, x0",
        "mov x10, x1",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "mov x0, {flags}",
        "mov x1, xzr",
        "mov x2, xzr",
        "mov x3, xzr",
        "mov x4, xzr",
        "mov x8, {clone}",
        "svc #0",
        "cbz x0, 2f",
        // The parent, which owns the stack again.
        "stp x0, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x30, -8",
        "mov x0, x9",
        "mov x1, x10",
        "bl {after}",
        "ldp x0, x30, [sp], #16",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x30",
        "cmn x0, #4095",
        "b.hs 3f",
        "2: ret",
        // The vfork failed; only the parent reaches this.
        "3: neg w0, w0",
        "stp x0, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x30, -8",
        "bl __errno_location",
        "ldp x1, x30, [sp], #16",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x30",
        "str w1, [x0]",
        "mov x0, #-1",
        "ret",
        ".cfi_endproc",
        before = sym before_vfork,
        after = sym after_vfork,
        flags = const libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
        clone = const libc::SYS_clone,
    )
}

/// `vfork(2)`.
///
/// # Safety
/// The child may call `_exit` or an `exec` function; it must not return from the function that
/// called this.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> libc::pid_t {
    // System calls preserve all registers but rax, rcx and r11. r9: return address. rdi, rsi: the
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
        // The parent, which owns the stack again.
        "push rax",
        ".cfi_adjust_cfa_offset 8",
        "call {after}",
        "pop rax",
        ".cfi_adjust_cfa_offset -8",
        "cmp rax, -4095",
        "jae 3f",
        "2: ret",
        // The vfork failed; only the parent reaches this.
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
