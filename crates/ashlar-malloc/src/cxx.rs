//! C++ operators new and delete, by their mangled names (Itanium ABI, `size_t` is `unsigned long`).
//!
//! `new` of 0 bytes returns a distinct pointer. Without memory, the new handler is called until it
//! frees some; without a handler, `std::bad_alloc` is thrown. Both come from the program's C++
//! library, by weak references. A program without one (its C++ code would come by `dlopen`) ends
//! with a message and SIGABRT. A handler may throw, and exceptions cannot unwind Rust frames, so
//! the operators are assembly, which unwinders pass.
//!
//! Most forms must call another form, which the program may replace. They are in `derived`.
//!
//! The nothrow forms of `new` are left to the C++ library. They call the throwing forms, which are
//! here, and catch the exception, as the standard requires. Only C++ can do that.

mod derived;

use core::arch::{global_asm, naked_asm};
use core::ffi::c_void;

use crate::text::to_stderr;
use ashlar::address_of;
use ashlar::malloc as inner;
pub use derived::*;

global_asm!(
    ".weak _ZSt15get_new_handlerv, _ZSt17__throw_bad_allocv",
    ".weak __cxa_allocate_exception, __cxa_throw, _ZTISt9exception, _ZTVN10__cxxabiv120__si_class_type_infoE",
    // The library's own std::bad_alloc, for `throw_ours`: type, name and table. libstdc++ and
    // libc++ compare types by name.
    ".pushsection .data.rel.ro.ashlar_bad_alloc, \"aw\", @progbits",
    ".balign 8",
    "ashlar_bad_alloc_type:",
    ".quad _ZTVN10__cxxabiv120__si_class_type_infoE + 16, ashlar_bad_alloc_name, _ZTISt9exception",
    "ashlar_bad_alloc_table:",
    ".quad 0, ashlar_bad_alloc_type, ashlar_bad_alloc_end, ashlar_bad_alloc_end, ashlar_bad_alloc_what",
    ".popsection",
    ".pushsection .rodata.ashlar.cold.bad_alloc, \"a\", @progbits",
    "ashlar_bad_alloc_name: .asciz \"St9bad_alloc\"",
    "ashlar_bad_alloc_text: .asciz \"std::bad_alloc\"",
    ".popsection",
    ".pushsection .text.ashlar.cold.bad_alloc, \"ax\", @progbits",
    "ashlar_bad_alloc_what: lea rax, [rip + ashlar_bad_alloc_text]",
    "ashlar_bad_alloc_end: ret",
    ".popsection",
);

/// Returns the program's new handler; null if it set none.
extern "C" fn new_handler() -> *const c_void {
    let get = address_of!("_ZSt15get_new_handlerv");
    if get.is_null() {
        return get;
    }
    // SAFETY: the symbol is std::get_new_handler, which takes no argument and returns a function
    // pointer or null.
    unsafe { core::mem::transmute::<*const c_void, extern "C" fn() -> *const c_void>(get)() }
}

/// Returns the function that throws `std::bad_alloc`. It takes no argument and does not return.
///
/// The linker of a static program takes from the C++ library only symbols with strong references.
/// The references here are weak, because C programs have no C++ library. A program that catches or
/// cleans up contains `__cxa_throw` and its types, but may lack `__throw_bad_alloc`.
#[place(cold)]
extern "C" fn thrower() -> *const c_void {
    let throw = address_of!("_ZSt17__throw_bad_allocv");
    if !throw.is_null() {
        return throw;
    }
    let parts = [
        address_of!("__cxa_allocate_exception"),
        address_of!("__cxa_throw"),
        address_of!("_ZTISt9exception"),
        address_of!("_ZTVN10__cxxabiv120__si_class_type_infoE"),
    ];
    if parts.iter().any(|part| part.is_null()) { no_memory as *const c_void } else { throw_ours as *const c_void }
}

/// Throws the library's own `std::bad_alloc`. Called only if [`thrower`] found all symbols for it.
#[unsafe(naked)]
#[ashlar_macros::place(cold)]
extern "C" fn throw_ours() {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "mov edi, 8",
        "call qword ptr [rip + __cxa_allocate_exception@GOTPCREL]",
        "lea rcx, [rip + ashlar_bad_alloc_table + 16]",
        "mov [rax], rcx",
        "mov rdi, rax",
        "lea rsi, [rip + ashlar_bad_alloc_type]",
        "lea rdx, [rip + ashlar_bad_alloc_end]",
        "call qword ptr [rip + __cxa_throw@GOTPCREL]",
        "ud2",
        ".cfi_endproc",
    )
}

#[place(cold)]
extern "C" fn no_memory() -> ! {
    to_stderr(b"ashlar: operator new: out of memory, and no C++ library to throw std::bad_alloc\n");
    // SAFETY: abort has no preconditions and does not return.
    unsafe { libc::abort() }
}

/// Defines a `new` by `$alloc`: calls it, and after null the handler or the thrower. The arguments
/// stay on the stack meanwhile.
macro_rules! operator_new {
    ($(#[$attribute:meta])* $name:ident($($arg:ident),*) by $alloc:path) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub extern "C" fn $name($($arg: usize),*) -> *mut c_void {
            naked_asm!(
                ".cfi_startproc",
                "sub rsp, 24",
                ".cfi_adjust_cfa_offset 24",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "2: call {alloc}",
                "test rax, rax",
                "jz 3f",
                "add rsp, 24",
                ".cfi_remember_state",
                ".cfi_adjust_cfa_offset -24",
                "ret",
                ".cfi_restore_state",
                "3: call {handler}",
                "test rax, rax",
                "jz 4f",
                "call rax",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "jmp 2b",
                "4: call {thrower}",
                "call rax",
                "ud2",
                ".cfi_endproc",
                alloc = sym $alloc,
                handler = sym new_handler,
                thrower = sym thrower,
            )
        }
    };
}

operator_new!(
    /// The slow path of `new`. The operator itself contains the fast path of `malloc`.
    new_slow(_size) by inner::parts::malloc_slow
);
operator_new!(
    /// `operator new(size_t, std::align_val_t)`.
    #[unsafe(no_mangle)]
    _ZnwmSt11align_val_t(_size, _align) by aligned
);

/// `operator new(size_t)`.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn _Znwm(size: usize) -> *mut c_void {
    ashlar::malloc_fast_path!(OWN, new_slow, ".globl ashlar_own_new", ".hidden ashlar_own_new", "ashlar_own_new:")
}

extern "C" fn aligned(size: usize, align: usize) -> *mut c_void {
    inner::malloc_aligned(align, size).cast()
}

/// `operator delete(void*)`.
///
/// # Safety
/// As for [`free`](crate::family::free).
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZdlPv(ptr: *mut c_void) {
    ashlar::free_fast_path!(OWN, ".globl ashlar_own_delete", ".hidden ashlar_own_delete", "ashlar_own_delete:")
}

/// `operator delete(void*, std::align_val_t)`. The alignment is not needed.
///
/// # Safety
/// As for [`free`](crate::family::free).
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ZdlPvSt11align_val_t(ptr: *mut c_void, _align: usize) {
    ashlar::free_fast_path!(
        OWN,
        ".globl ashlar_own_aligned_delete",
        ".hidden ashlar_own_aligned_delete",
        "ashlar_own_aligned_delete:"
    )
}
