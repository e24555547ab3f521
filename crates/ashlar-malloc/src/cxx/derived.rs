//! Forms of new and delete that must call another form, by `[new.delete.single]` and
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
//! If a program replaces a form on the right, the forms on the left call the replacement. The call
//! is a jump through the GOT, where the dynamic linker, or the linker of a static program, stored
//! the form in effect. A jump leaves no frame here, so exceptions pass.
//!
//! A program that replaces no form pays nothing. At load, [`look_for_replacements`] compares the
//! GOT with the library's own forms. Where they are equal, derived forms use the fast paths of
//! malloc themselves (see [`ashlar::free_fast_path!`] on the bound of derived forms). Before that,
//! and where a form is replaced, each call takes the jump. Libraries loaded later change nothing,
//! because the GOT is bound at load, and this library's names precede those of a library that
//! `dlopen` loads.
//!
//! A replacement that the dynamic linker cannot see, in a library linked with `-Bsymbolic` or as a
//! hidden symbol, is not found. The C++ library does not find it either.

use core::arch::{global_asm, naked_asm};
use core::ffi::c_void;

use ashlar::address_of;

/// Jumps to the form in effect, after the given lines.
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
    // The alignment is the third argument of the caller and the second of the form. A closed fast
    // path has only compared its bound so far, so the register still holds it. The library's own
    // form ignores it.
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

/// Forms of `delete`, and the forms that they jump to. Only replaced forms use the arguments after
/// the pointer (size, alignment, nothrow).
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

/// Whether the name, as the program binds it, is the library's own form. The own form has a second,
/// hidden label for the comparison.
macro_rules! is_ours {
    ($name:literal, $own:literal) => {{
        let own: *const c_void;
        // SAFETY: the assembly only computes an address.
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

/// Opens the fast paths of derived forms if the program replaces no form that they must call.
/// Start-up code, so it lies apart (see `layout.ld`).
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
