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
//! `free` never changes `errno`. `malloc_usable_size` is exact: the bytes may be used. `mallopt` knows
//! `M_ARENA_MAX` and `M_ARENA_TEST`, whose limits are kept whatever they are, as there are no arenas; to all else it
//! answers 0, for "not set": what can be tuned is in `ASHLAR_OPTIONS`.

use core::ffi::{c_int, c_void};

use ashlar::malloc as inner;
use libc::{EINVAL, ENOMEM};

const PAGE: usize = 4096;

pub(crate) fn errno() -> c_int {
    // SAFETY: the C library gives the address of this thread's errno, which is always valid.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(value: c_int) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = value };
}

/// `malloc(3)`.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    ashlar::malloc_fast_path!(inner::parts::malloc_slow)
}

/// `malloc(3)`.
#[cfg(not(target_arch = "x86_64"))]
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    inner::malloc(size).cast()
}

/// `free(3)`.
///
/// # Safety
/// `ptr` is null, or live memory of this family that nobody uses any more.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn free(ptr: *mut c_void) {
    ashlar::free_fast_path!()
}

/// `free(3)`.
///
/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(ptr: *mut c_void) {
    // SAFETY: the same contract.
    unsafe { inner::free(ptr.cast()) }
}

/// `calloc(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    inner::calloc(count, size).cast()
}

/// `realloc(3)`.
///
/// # Safety
/// As for [`free`]; on success the old pointer is dead.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(ptr: *mut c_void, size: usize) -> *mut c_void {
    // Some programs (lua) have no other malloc: theirs should be as short as `malloc` is.
    if ptr.is_null() {
        return malloc(size);
    }
    // SAFETY: the same contract.
    unsafe { inner::realloc(ptr.cast(), size).cast() }
}

/// `reallocarray(3)`.
///
/// # Safety
/// As for [`realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(ptr: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the same contract.
        Some(bytes) => unsafe { realloc(ptr, bytes) },
        None => {
            set_errno(ENOMEM);
            core::ptr::null_mut()
        }
    }
}

/// `aligned_alloc(3)`: any size, and alignments that are powers of two.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    inner::malloc_aligned(align, size).cast()
}

/// `memalign(3)`; as glibc's, it takes the next power of two for an alignment that is none.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => aligned_alloc(align, size),
        None => {
            set_errno(EINVAL);
            core::ptr::null_mut()
        }
    }
}

/// `posix_memalign(3)`.
///
/// # Safety
/// `result` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(result: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || align < size_of::<*mut c_void>() {
        return EINVAL;
    }
    let before = errno();
    let ptr = aligned_alloc(align, size);
    if ptr.is_null() {
        set_errno(before);
        return ENOMEM;
    }
    // SAFETY: by the caller's promise.
    unsafe { *result = ptr };
    0
}

/// `valloc(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    aligned_alloc(page_size(), size)
}

/// `pvalloc(3)`: whole pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let page = page_size();
    match size.max(1).checked_next_multiple_of(page) {
        Some(bytes) => aligned_alloc(page, bytes),
        None => {
            set_errno(ENOMEM);
            core::ptr::null_mut()
        }
    }
}

fn page_size() -> usize {
    // SAFETY: sysconf has no preconditions.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(PAGE)
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

/// C23's `free_sized`: the size is the caller's word, which `free` does not need.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(ptr: *mut c_void, _size: usize) {
    // SAFETY: the same contract.
    unsafe { free(ptr) }
}

/// C23's `free_aligned_sized`.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(ptr: *mut c_void, _align: usize, _size: usize) {
    // SAFETY: the same contract.
    unsafe { free(ptr) }
}

/// The old name of `free` that glibc 2.25 and earlier had.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(ptr: *mut c_void) {
    // SAFETY: the same contract.
    unsafe { free(ptr) }
}

/// `malloc_trim(3)`: gives everything free back to the system; 1 if that was anything. The pad is kept for nobody.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_trim(_pad: usize) -> c_int {
    let before = errno();
    let pages = ashlar::reap();
    set_errno(before);
    c_int::from(pages > 0)
}

/// `mallopt(3)`; see the module.
#[unsafe(no_mangle)]
pub extern "C" fn mallopt(parameter: c_int, value: c_int) -> c_int {
    const M_ARENA_TEST: c_int = -7;
    const M_ARENA_MAX: c_int = -8;
    c_int::from(matches!(parameter, M_ARENA_TEST | M_ARENA_MAX) && value > 0)
}

/// glibc's own names, which programs that wrap `malloc` call.
macro_rules! glibc_names {
    ($($name:ident = $of:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[doc = concat!("glibc's own name of [`", stringify!($of), "`].")]
        ///
        /// # Safety
        /// As for the function of that name.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            // Some of them are safe; as a pointer none is.
            let of: unsafe extern "C" fn($($type),*) -> $result = $of;
            // SAFETY: the same contract.
            unsafe { of($($arg),*) }
        }
    )*};
}

glibc_names! {
    __libc_malloc = malloc(size: usize) -> *mut c_void;
    __libc_calloc = calloc(count: usize, size: usize) -> *mut c_void;
    __libc_realloc = realloc(ptr: *mut c_void, size: usize) -> *mut c_void;
    __libc_free = free(ptr: *mut c_void) -> ();
    __libc_cfree = free(ptr: *mut c_void) -> ();
    __libc_memalign = memalign(align: usize, size: usize) -> *mut c_void;
    __libc_valloc = valloc(size: usize) -> *mut c_void;
    __libc_pvalloc = pvalloc(size: usize) -> *mut c_void;
    __posix_memalign = posix_memalign(result: *mut *mut c_void, align: usize, size: usize) -> c_int;
}
