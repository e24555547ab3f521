//! Forms of new and delete that have to call another form: `[new.delete.single]` and
//! `[new.delete.array]` of the C++ standard.
//!
//! | form | calls |
//! |---|---|
//! | `delete(void*, size_t)`, `delete(void*, nothrow)`, `delete[](void*)` | `delete(void*)` |
//! | `delete[](void*, size_t)`, `delete[](void*, nothrow)` | `delete[](void*)` |
//! | `delete(void*, size_t, align)`, `delete(void*, align, nothrow)` | `delete(void*, align)` |
//! | `delete[](void*, align)` | `delete(void*, align)` |
//! | `delete[](void*, size_t, align)` | `delete[](void*, align)` |
//! | `delete[](void*, align, nothrow)` | `delete[](void*, align)` |
//! | `new[](size_t)` | `new(size_t)` |
//! | `new[](size_t, align)` | `new(size_t, align)` |
//!
//! A program that replaces a form on the right finds its own called by those on the left. The call
//! is a jump through the GOT, where the dynamic linker, or the linker of a static program, put the
//! form that counts: the program's, or ours. A jump leaves no frame here, so exceptions pass.
//!
//! A program that replaces nothing pays nothing: [`look_for_replacements`] compares the GOT with
//! our own forms, once, at load. Where they are the same, derived forms have the fast paths of
//! malloc themselves (see [`ashlar::free_fast_path!`] on the bound of derived forms). Before, and
//! where a form is replaced, each call takes the jump. What is loaded later changes nothing: the
//! GOT is bound at load, and the names of this library come before those of a library that `dlopen`
//! brings.
//!
//! Not seen is a form that is replaced out of sight of the dynamic linker, in a library that is
//! linked with `-Bsymbolic` or hides it. The C++ library does not see it either.

use core::arch::{global_asm, naked_asm};
use core::ffi::c_void;

use ashlar::address_of;

/// Jumps to the form that counts; the lines come before the jump.
macro_rules! jumps {
    ($($name:ident: $base:literal $(, $line:literal)*;)*) => {$(
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                $($line,)*
                concat!("jmp qword ptr [rip + ", $base, "@GOTPCREL]"),
                ".cfi_endproc",
            )
        }
    )*};
}

jumps! {
    to_new: "_Znwm";
    to_delete: "_ZdlPv";
    to_delete_array: "_ZdaPv";
    to_aligned_delete: "_ZdlPvSt11align_val_t";
    to_aligned_delete_array: "_ZdaPvSt11align_val_t";
    // The alignment is the third argument of the caller and the second of the form. Of a closed
    // fast path only the compare with its bound ran before, so it is still there; ours does not
    // need it.
    drop_size_to_aligned_delete: "_ZdlPvSt11align_val_t", "mov rsi, rdx";
    drop_size_to_aligned_delete_array: "_ZdaPvSt11align_val_t", "mov rsi, rdx";
}

/// `operator new[](size_t, std::align_val_t)`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn _ZnamSt11align_val_t(_size: usize, _align: usize) -> *mut c_void {
    naked_asm!(".cfi_startproc", "jmp qword ptr [rip + _ZnwmSt11align_val_t@GOTPCREL]", ".cfi_endproc")
}

/// `operator new[](size_t)`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn _Znam(size: usize) -> *mut c_void {
    ashlar::malloc_fast_path!(DERIVED, to_new)
}

/// Forms of `delete`, and where they jump. What comes after the pointer (size, alignment, nothrow)
/// is for the replaced forms.
macro_rules! derived_deletes {
    ($($name:ident: $to:ident $(, $line:literal)*;)*) => {$(
        /// An operator delete.
        ///
        /// # Safety
        /// As for [`free`](crate::family::free).
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(ptr: *mut c_void) {
            ashlar::free_fast_path!(DERIVED, $to $(, $line)*)
        }
    )*};
}

derived_deletes! {
    _ZdlPvm: to_delete;
    _ZdlPvRKSt9nothrow_t: to_delete;
    _ZdaPv: to_delete, ".globl ashlar_own_delete_array", ".hidden ashlar_own_delete_array", "ashlar_own_delete_array:";
    _ZdaPvm: to_delete_array;
    _ZdaPvRKSt9nothrow_t: to_delete_array;
    _ZdlPvmSt11align_val_t: drop_size_to_aligned_delete;
    _ZdlPvSt11align_val_tRKSt9nothrow_t: to_aligned_delete;
    _ZdaPvSt11align_val_t: to_aligned_delete,
        ".globl ashlar_own_aligned_delete_array", ".hidden ashlar_own_aligned_delete_array", "ashlar_own_aligned_delete_array:";
    _ZdaPvmSt11align_val_t: drop_size_to_aligned_delete_array;
    _ZdaPvSt11align_val_tRKSt9nothrow_t: to_aligned_delete_array;
}

global_asm!(
    ".hidden ashlar_own_new, ashlar_own_delete, ashlar_own_delete_array",
    ".hidden ashlar_own_aligned_delete, ashlar_own_aligned_delete_array",
);

/// Whether the name, bound as a caller elsewhere would find it, is our own form, whose second label
/// is hidden.
macro_rules! is_ours {
    ($name:literal, $own:literal) => {{
        let own: *const c_void;
        // SAFETY: computes an address.
        unsafe {
            core::arch::asm!(
                concat!("lea {}, [rip + ", $own, "]"),
                out(reg) own,
                options(nostack, nomem, preserves_flags, pure)
            )
        };
        address_of!($name) == own
    }};
}

/// Lets derived forms serve calls themselves where the program replaces no form that they have to
/// call. Start-up code, so it lies apart (see `layout.ld`).
#[inline(never)]
#[place(cold)]
pub(crate) fn look_for_replacements() {
    if is_ours!("_Znwm", "ashlar_own_new") {
        ashlar::malloc::open_derived_allocs();
    }
    if is_ours!("_ZdlPv", "ashlar_own_delete")
        && is_ours!("_ZdaPv", "ashlar_own_delete_array")
        && is_ours!("_ZdlPvSt11align_val_t", "ashlar_own_aligned_delete")
        && is_ours!("_ZdaPvSt11align_val_t", "ashlar_own_aligned_delete_array")
    {
        ashlar::malloc::open_derived_frees();
    }
}
