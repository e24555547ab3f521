//! `malloc` and its relatives, as C declares them.
//!
//! | function | size 0 | bad alignment | no memory, or more than `PTRDIFF_MAX` |
//! |---|---|---|---|
//! | `malloc` `calloc` `reallocarray` | memory of its own | | null, `ENOMEM` |
//! | `realloc` | frees, returns null (a null pointer: as `malloc`) | | null, `ENOMEM`; the old memory stays |
//! | `aligned_alloc` | memory of its own | null, `EINVAL` | null, `ENOMEM` |
//! | `memalign` | memory of its own | next power of two; null, `EINVAL` if there is none | null, `ENOMEM` |
//! | `posix_memalign` | memory of its own | returns `EINVAL` | returns `ENOMEM`; `errno` and the result stay |
//! | `valloc` `pvalloc` | memory of its own, a page | | null, `ENOMEM` |
//!
//! No call here uses an exported name, because a program may define that name itself, for example
//! by `__libc_malloc`. Exported functions call `ashlar::malloc` or the private module `rules`.
//!
//! `free` never changes `errno`. All bytes that `malloc_usable_size` counts may be used.

use core::ffi::{c_int, c_void};

use ashlar::malloc as inner;

const PAGE: usize = 4096;

pub(crate) fn errno() -> c_int {
    // SAFETY: the C library returns the address of this thread's errno, which is always valid.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(value: c_int) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = value };
}

/// `malloc(3)`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    ashlar::malloc_fast_path!(inner::parts::malloc_slow)
}

/// `malloc(3)`.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    inner::malloc(size).cast()
}

/// `free(3)`.
///
/// # Safety
/// `ptr` is null, or live memory of this family that no thread uses any more.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn free(ptr: *mut c_void) {
    ashlar::free_fast_path!()
}

/// `free(3)`.
///
/// # Safety
/// As above.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(ptr: *mut c_void) {
    // SAFETY: the same contract.
    unsafe { inner::free(ptr.cast()) }
}

/// The bodies of exported functions, under names that no program replaces. They add C's rules for
/// arguments and `errno` to `ashlar::malloc`.
mod rules {
    use core::ffi::{c_int, c_void};

    use ashlar::malloc as inner;
    use libc::{EINVAL, ENOMEM};

    use super::{PAGE, errno, set_errno};

    fn refused(code: c_int) -> *mut c_void {
        set_errno(code);
        core::ptr::null_mut()
    }

    fn page_size() -> usize {
        // SAFETY: sysconf has no preconditions.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE)
    }

    pub(super) fn memalign(align: usize, size: usize) -> *mut c_void {
        match align.checked_next_power_of_two() {
            Some(align) => inner::malloc_aligned(align, size).cast(),
            None => refused(EINVAL),
        }
    }

    /// # Safety
    /// `result` may be written.
    pub(super) unsafe fn posix_memalign(result: *mut *mut c_void, align: usize, size: usize) -> c_int {
        if !align.is_power_of_two() || align < size_of::<*mut c_void>() {
            return EINVAL;
        }
        let before = errno();
        let ptr = inner::malloc_aligned(align, size);
        if ptr.is_null() {
            set_errno(before);
            return ENOMEM;
        }
        // SAFETY: `result` may be written, by the contract of this function.
        unsafe { *result = ptr.cast() };
        0
    }

    pub(super) fn valloc(size: usize) -> *mut c_void {
        inner::malloc_aligned(page_size(), size).cast()
    }

    #[ashlar_macros::place(cold)]
    #[inline(never)]
    pub(super) fn pvalloc(size: usize) -> *mut c_void {
        let page = page_size();
        match size.max(1).checked_next_multiple_of(page) {
            Some(bytes) => inner::malloc_aligned(page, bytes).cast(),
            None => refused(ENOMEM),
        }
    }

    /// # Safety
    /// As for `inner::realloc`.
    pub(super) unsafe fn reallocarray(ptr: *mut c_void, count: usize, size: usize) -> *mut c_void {
        match count.checked_mul(size) {
            // SAFETY: the same contract.
            Some(bytes) => unsafe { inner::realloc(ptr.cast(), bytes).cast() },
            None => refused(ENOMEM),
        }
    }
}

/// `calloc(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    inner::calloc(count, size).cast()
}

/// `realloc(3)`.
///
/// # Safety
/// As for [`free`]. After success the old pointer is invalid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(ptr: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the same contract.
    unsafe { inner::realloc(ptr.cast(), size).cast() }
}

/// `reallocarray(3)`.
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(ptr: *mut c_void, count: usize, size: usize) -> *mut c_void {
    // SAFETY: the same contract.
    unsafe { rules::reallocarray(ptr, count, size) }
}

/// `aligned_alloc(3)`: any size, and alignments that are powers of two.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    inner::malloc_aligned(align, size).cast()
}

/// `memalign(3)`. As in glibc, an alignment that is not a power of two is rounded up to one.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    rules::memalign(align, size)
}

/// `posix_memalign(3)`.
///
/// # Safety
/// `result` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(result: *mut *mut c_void, align: usize, size: usize) -> c_int {
    // SAFETY: the same contract.
    unsafe { rules::posix_memalign(result, align, size) }
}

/// `valloc(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    rules::valloc(size)
}

/// `pvalloc(3)`: rounds the size up to whole pages.
#[unsafe(no_mangle)]
#[ashlar_macros::place(cold)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    rules::pvalloc(size)
}

/// `malloc_usable_size(3)`.
///
/// # Safety
/// `ptr` is null, or live memory of this family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(ptr: *mut c_void) -> usize {
    // SAFETY: the same contract.
    unsafe { inner::malloc_usable_size(ptr.cast()) }
}

/// C23's `free_sized`. `free` does not need the size, so it is not checked.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(ptr: *mut c_void, _size: usize) {
    // SAFETY: the same contract.
    unsafe { inner::free(ptr.cast()) }
}

/// C23's `free_aligned_sized`.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(ptr: *mut c_void, _align: usize, _size: usize) {
    // SAFETY: the same contract.
    unsafe { inner::free(ptr.cast()) }
}

/// The other name of `free` in glibc 2.25 and earlier.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(ptr: *mut c_void) {
    // SAFETY: the same contract.
    unsafe { inner::free(ptr.cast()) }
}

/// `malloc_trim(3)`: returns all free memory to the system. Returns 1 if there was some. Ignores
/// the pad.
#[unsafe(no_mangle)]
#[ashlar_macros::place(cold)]
pub extern "C" fn malloc_trim(_pad: usize) -> c_int {
    let before = errno();
    let pages = ashlar::reap();
    set_errno(before);
    c_int::from(pages > 0)
}

/// glibc's own names. Programs that define `malloc` and its relatives call the C library's by them.
macro_rules! glibc_names {
    ($($name:ident of $of:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? = $body:expr;)*) => {$(
        #[doc = concat!("glibc's own name of [`", stringify!($of), "`].")]
        ///
        /// # Safety
        /// As for the function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? {
            // Some bodies are safe.
            #[allow(unused_unsafe, clippy::allow_attributes, reason = "true of some names only")]
            // SAFETY: the same contract.
            unsafe { $body }
        }
    )*};
}

glibc_names! {
    __libc_malloc of malloc(size: usize) -> *mut c_void = inner::malloc(size).cast();
    __libc_calloc of calloc(count: usize, size: usize) -> *mut c_void = inner::calloc(count, size).cast();
    __libc_realloc of realloc(ptr: *mut c_void, size: usize) -> *mut c_void = inner::realloc(ptr.cast(), size).cast();
    __libc_reallocarray of reallocarray(ptr: *mut c_void, count: usize, size: usize) -> *mut c_void =
        rules::reallocarray(ptr, count, size);
    __libc_free of free(ptr: *mut c_void) = inner::free(ptr.cast());
    __libc_cfree of cfree(ptr: *mut c_void) = inner::free(ptr.cast());
    __libc_memalign of memalign(align: usize, size: usize) -> *mut c_void = rules::memalign(align, size);
    __libc_valloc of valloc(size: usize) -> *mut c_void = rules::valloc(size);
    __libc_pvalloc of pvalloc(size: usize) -> *mut c_void = rules::pvalloc(size);
    __posix_memalign of posix_memalign(result: *mut *mut c_void, align: usize, size: usize) -> c_int =
        rules::posix_memalign(result, align, size);
}
