//! `dlopen`: the C library's, without `RTLD_DEEPBIND`.
//!
//! A library opened with that flag binds names to itself and its dependencies first. The C library
//! is one of these, so the library would pass memory of this allocator to the C library's `free`,
//! and the program would end. php opens its modules with the flag. So the flag is removed, unless
//! the option is `deepbind=keep`. Names that both the program and the library define are then the
//! program's.
//!
//! The real `dlopen` uses its return address. The library that contains it decides where names
//! without a directory are searched (RUNPATH), and which namespace the new library enters. So this
//! function jumps to the real one with the caller's return address on top of the stack.
//!
//! The real `dlopen` is found as follows:
//! * In a dynamic program, `dlsym` finds the one after this library. The look-up happens at the
//!   first call, because constructors of other libraries may run before this library's.
//! * In a static program of glibc 2.34 or later, it has the other name `___dlopen`. The flag is
//!   kept there, because libraries that a static program loads use another C library in any case.
//! * In a static program of another C library there is none, and every call fails. Such programs
//!   can hardly load libraries.
//!
//! `dlmopen` is left alone. Each namespace has its own C library with its own `malloc`, so memory
//! must be freed where it was allocated, with this library or without it.

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::Write;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use ashlar::malloc::DeepBind;

use crate::text::{Text, to_stderr};
use ashlar::address_of;

core::arch::global_asm!(".weak dlsym, ___dlopen");

/// The `dlopen` after this one; null until the first look-up.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of calls in which the flag was removed.
#[place(cold)]
pub(crate) fn dropped() -> usize {
    DROPPED.load(Ordering::Relaxed)
}

/// The target of the jump and its flags, in two registers by the C calling convention.
#[repr(C)]
struct Jump {
    /// Null if there is no such function.
    to: *const c_void,
    flags: c_int,
}

#[place(cold)]
extern "C" fn prepare(name: *const c_char, flags: c_int) -> Jump {
    let to = address_of!("___dlopen");
    if !to.is_null() {
        return Jump { to, flags };
    }
    let flags = if flags & libc::RTLD_DEEPBIND != 0 { without_deepbind(name, flags) } else { flags };
    Jump { to: next(), flags }
}

fn next() -> *const c_void {
    let known = NEXT.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    let dlsym = address_of!("dlsym");
    if dlsym.is_null() {
        return dlsym;
    }
    // SAFETY: the symbol is dlsym, which has this type.
    let dlsym = unsafe {
        core::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void>(dlsym)
    };
    // SAFETY: the name is NUL-terminated. `RTLD_NEXT` counts from the calling library, which is
    // this one.
    let found = unsafe { dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    // Threads that store concurrently store the same address.
    NEXT.store(found, Ordering::Relaxed);
    found
}

fn without_deepbind(name: *const c_char, flags: c_int) -> c_int {
    let wanted = ashlar::malloc::deepbind();
    if wanted == DeepBind::Keep {
        return flags;
    }
    if DROPPED.fetch_add(1, Ordering::Relaxed) == 0 && wanted == DeepBind::Warn {
        warn(name);
    }
    flags & !libc::RTLD_DEEPBIND
}

#[cold]
#[place(cold)]
fn warn(name: *const c_char) {
    let name = if name.is_null() {
        b"the program"
    } else {
        // SAFETY: the caller of `dlopen` passes a NUL-terminated string.
        unsafe { CStr::from_ptr(name) }.to_bytes()
    };
    let mut out = Text::new(to_stderr);
    let _ = writeln!(
        out,
        "ashlar: dlopen: {}: RTLD_DEEPBIND is left out, because the library would call the C library's free; \
         deepbind=keep leaves it in",
        name.escape_ascii()
    );
    out.flush();
}

/// `dlopen(3)`; see the module.
///
/// # Safety
/// As for the C library's: `name` is null or a NUL-terminated string, and the constructors of the
/// loaded library are sound.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[place(cold)]
pub unsafe extern "C" fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void {
    // x0: name. w1: flags. x0, w1: what `prepare` returns. x16: the real function.
    naked_asm!(
        ".cfi_startproc",
        ashlar::landing_pad!(),
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "str x0, [sp, #16]",
        "bl {prepare}",
        "mov x16, x0",
        "ldr x0, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "cbz x16, 2f",
        "br x16",
        // A failed call returns null, too.
        "2: mov x0, xzr",
        "ret",
        ".cfi_endproc",
        prepare = sym prepare,
    )
}

/// `dlopen(3)`; see the module.
///
/// # Safety
/// As for the C library's: `name` is null or a NUL-terminated string, and the constructors of the
/// loaded library are sound.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
#[place(cold)]
pub unsafe extern "C" fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void {
    // rdi: name. esi: flags. rax, edx: what `prepare` returns.
    naked_asm!(
        ".cfi_startproc",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "call {prepare}",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "mov esi, edx",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        // A failed call returns null, too.
        "2: ret",
        ".cfi_endproc",
        prepare = sym prepare,
    )
}
