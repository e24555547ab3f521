//! `dlopen`: the C library's, without `RTLD_DEEPBIND`.
//!
//! A library that is opened with that flag looks names up in itself and its dependencies first. The
//! C library is one of these, so such a library calls the C library's `free`, on memory of ours
//! too, and the program ends. php opens its modules so. The flag is left out, unless the option
//! `deepbind=keep` says otherwise. Names that both the program and the library define are the
//! program's then.
//!
//! The real `dlopen` looks at its return address: the library that it is in decides where names
//! without a directory are searched (RUNPATH) and into which namespace the new library goes. So
//! this function jumps there with the caller's return address on top of the stack.
//!
//! Where it is:
//! * In a dynamic program: what `dlsym` finds after this library. It is looked for when it is
//!   needed, because constructors of other libraries may come before ours.
//! * In a static program of glibc 2.34 or later: under its other name, `___dlopen`. The flag stays
//!   there, because what a static program loads has a C library of its own in any case.
//! * Otherwise, in a static program of another C library: nowhere, and every call fails. Such
//!   programs can hardly load libraries.
//!
//! `dlmopen` is not here: each namespace has its own C library with its own `malloc`, so memory
//! must be freed where it was allocated, with this library or without it.

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::Write;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use ashlar::malloc::DeepBind;

use crate::text::{Text, to_stderr};
use ashlar::address_of;

core::arch::global_asm!(".weak dlsym, ___dlopen");

/// The `dlopen` that comes after this one; null until it is needed.
static NEXT: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static DROPPED: AtomicUsize = AtomicUsize::new(0);

/// How often the flag was left out.
pub(crate) fn dropped() -> usize {
    DROPPED.load(Ordering::Relaxed)
}

/// What `dlopen` does: jumps to a function with flags. As two registers, by the C calling
/// convention.
#[repr(C)]
struct Jump {
    /// Null where there is no such function.
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
    // SAFETY: the symbol is dlsym, of this type.
    let dlsym = unsafe {
        core::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void>(dlsym)
    };
    // SAFETY: the name is NUL-terminated. "Next" is counted from the library that calls, which is
    // this one.
    let found = unsafe { dlsym(libc::RTLD_NEXT, c"dlopen".as_ptr()) };
    // Threads that meet here find the same.
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
        // SAFETY: the caller of `dlopen` gives a NUL-terminated string.
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
/// As for the C library's: `name` is null or a NUL-terminated string, and what the library does
/// when it is loaded is right.
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
        // Null is what a failed call returns, too.
        "2: ret",
        ".cfi_endproc",
        prepare = sym prepare,
    )
}
