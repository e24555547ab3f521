//! The kmalloc family: objects of any size.
//!
//! | function | size 0 | overflow, too large, no memory | bad flags |
//! |---|---|---|---|
//! | `kmalloc` and all that allocate | ZERO_SIZE_PTR | NULL, `ENOMEM` | NULL, `EINVAL` |
//! | `krealloc` and its relatives | frees; ZERO_SIZE_PTR | NULL, `ENOMEM`; the old memory stays | NULL, `EINVAL`; the old memory stays |
//! | `kfree` and all that free | nothing happens for NULL and for ZERO_SIZE_PTR | | |
//!
//! Memory allocated with __GFP_ZERO is zero up to its `ksize`, so that `krealloc` with the same
//! flag can promise zeros when memory grows in place.

use core::ffi::c_void;

use core_ashlar as core_api;
use libc::ENOMEM;

use crate::flags::{__GFP_ZERO, PLAIN, allocate, gfp_t, known};
use crate::report::null;

/// Largest size that the fast path of kmalloc serves, in bytes.
pub const KMALLOC_MAX_CACHE_SIZE: usize = 8192;
/// Largest size, in bytes; larger requests fail.
pub const KMALLOC_MAX_SIZE: usize = 0x7fff_ffff_fdff_ffff;
/// Smallest class of kmalloc, in bytes.
pub const KMALLOC_MIN_SIZE: usize = 8;
/// Least alignment of memory of kmalloc, in bytes. A size that is a power of two is aligned to
/// itself, up to 2 MiB.
pub const ARCH_KMALLOC_MINALIGN: usize = 8;
/// Least alignment of the objects of all caches, in bytes.
pub const ARCH_SLAB_MINALIGN: usize = 8;

const _: () = assert!(KMALLOC_MAX_CACHE_SIZE == core_api::KMALLOC_MAX_CACHE_SIZE);
const _: () = assert!(KMALLOC_MAX_SIZE == core_api::KMALLOC_MAX_SIZE);
const _: () = assert!(PLAIN == core_api::PLAIN_FLAGS);

/// Allocates memory in which all bytes that `ksize` counts are zero.
fn zeroed(size: usize) -> *mut u8 {
    core_api::kzalloc(core_api::kmalloc_size_roundup(size))
}

#[cold]
#[inline(never)]
fn kmalloc_slow(function: &str, size: usize, flags: gfp_t) -> *mut c_void {
    allocate(function, flags, |zero| if zero { zeroed(size) } else { core_api::kmalloc(size) })
}

/// `kmalloc` where the option `random_kmalloc` wants the address that the call returns to.
#[cfg(target_arch = "x86_64")]
#[cold]
#[inline(never)]
extern "C" fn kmalloc_called_from(size: usize, flags: gfp_t, caller: usize) -> *mut c_void {
    allocate("kmalloc", flags, |zero| match zero {
        true => core_api::kzalloc_called_from(core_api::kmalloc_size_roundup(size), caller),
        false => core_api::kmalloc_called_from(size, caller),
    })
}

/// The same for `kzalloc`.
#[cfg(target_arch = "x86_64")]
#[cold]
#[inline(never)]
extern "C" fn kzalloc_called_from(size: usize, flags: gfp_t, caller: usize) -> *mut c_void {
    allocate("kzalloc", flags | __GFP_ZERO, |_| {
        core_api::kzalloc_called_from(core_api::kmalloc_size_roundup(size), caller)
    })
}

extern "C" fn kmalloc_plain(size: usize, flags: gfp_t) -> *mut c_void {
    let got = core_api::kmalloc(size);
    if got.is_null() { kmalloc_slow("kmalloc", size, flags) } else { got.cast() }
}

extern "C" fn kzalloc_plain(size: usize, flags: gfp_t) -> *mut c_void {
    let got = zeroed(size);
    if got.is_null() { kmalloc_slow("kzalloc", size, flags | __GFP_ZERO) } else { got.cast() }
}

/// The body of an entry point: calls `$plain` if no flag asks for more, and otherwise `$from`, with
/// the address that the call returns to.
#[cfg(target_arch = "x86_64")]
macro_rules! by_flags {
    ($size:ident, $flags:ident, $plain:ident, $from:ident, $name:literal) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "test [rip + {slow}], esi",
            "jz {plain}",
            "mov rdx, [rsp]",
            "jmp {from}",
            ".cfi_endproc",
            slow = sym core_api::SLOW_FLAGS,
            plain = sym $plain,
            from = sym $from,
        )
    };
}

/// The same where no entry point passes the address on.
#[cfg(not(target_arch = "x86_64"))]
macro_rules! by_flags {
    ($size:ident, $flags:ident, $plain:ident, $from:ident, $name:literal) => {
        if $flags & !PLAIN == 0 {
            $plain($size, $flags)
        } else {
            kmalloc_slow($name, $size, if $name == "kzalloc" { $flags | __GFP_ZERO } else { $flags })
        }
    };
}

/// Allocates at least `size` bytes. Sizes up to 64 KiB come from caches, one for each class
/// (`kmalloc-64`). Larger ones are runs of pages, and those above 32 MiB have a mapping each.
#[unsafe(no_mangle)]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub extern "C" fn kmalloc(size: usize, flags: gfp_t) -> *mut c_void {
    by_flags!(size, flags, kmalloc_plain, kmalloc_called_from, "kmalloc")
}

/// As kmalloc, with all bytes zero.
#[unsafe(no_mangle)]
#[cfg_attr(target_arch = "x86_64", unsafe(naked))]
pub extern "C" fn kzalloc(size: usize, flags: gfp_t) -> *mut c_void {
    by_flags!(size, flags, kzalloc_plain, kzalloc_called_from, "kzalloc")
}

/// Allocates memory for `n` elements of `size` bytes. Returns NULL with errno ENOMEM if the product
/// overflows.
#[unsafe(no_mangle)]
pub extern "C" fn kmalloc_array(n: usize, size: usize, flags: gfp_t) -> *mut c_void {
    n.checked_mul(size).map_or_else(|| null(ENOMEM), |bytes| kmalloc(bytes, flags))
}

/// As kmalloc_array, with all bytes zero.
#[unsafe(no_mangle)]
pub extern "C" fn kcalloc(n: usize, size: usize, flags: gfp_t) -> *mut c_void {
    n.checked_mul(size).map_or_else(|| null(ENOMEM), |bytes| kzalloc(bytes, flags))
}

/// Changes the size of memory, and moves it if needed. It is not moved if `new_size` is at most its
/// `ksize`. With a null pointer, allocates. With a new size of 0, frees and returns ZERO_SIZE_PTR.
///
/// With __GFP_ZERO, added bytes are zero, if the memory was allocated and always resized with that
/// flag.
///
/// # Safety
/// As for kfree. After success the old pointer is invalid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn krealloc(p: *const c_void, new_size: usize, flags: gfp_t) -> *mut c_void {
    let zero = flags & __GFP_ZERO != 0;
    // SAFETY: `p` is null, ZERO_SIZE_PTR or live memory, by the caller's promise.
    let old = unsafe { core_api::ksize(p.cast()) };
    if old == 0 && new_size != 0 {
        return if zero { kzalloc(new_size, flags) } else { kmalloc(new_size, flags) };
    }
    if flags & !PLAIN != 0 && !known("krealloc", flags) {
        return null(libc::EINVAL);
    }
    if new_size == 0 || new_size <= old {
        if zero && new_size != 0 {
            // SAFETY: the memory is live and `old` bytes long.
            unsafe { p.cast::<u8>().cast_mut().add(new_size).write_bytes(0, old - new_size) };
        }
        // SAFETY: by the caller's promise.
        return unsafe { core_api::krealloc(p.cast_mut().cast(), new_size) }.cast();
    }
    allocate("krealloc", flags, |zero| {
        // SAFETY: by the caller's promise. After a failure, the old memory is still live for
        // another try.
        let new = unsafe { core_api::krealloc(p.cast_mut().cast(), new_size) };
        if zero && !new.is_null() {
            // SAFETY: the memory is fresh, and longer than `old` bytes.
            unsafe { new.add(old).write_bytes(0, core_api::ksize(new) - old) };
        }
        new
    })
}

/// As krealloc, for `new_n` elements of `new_size` bytes. Returns NULL with errno ENOMEM if the
/// product overflows.
///
/// # Safety
/// As for krealloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn krealloc_array(p: *mut c_void, new_n: usize, new_size: usize, flags: gfp_t) -> *mut c_void {
    match new_n.checked_mul(new_size) {
        // SAFETY: by the caller's promise.
        Some(bytes) => unsafe { krealloc(p, bytes, flags) },
        None => null(ENOMEM),
    }
}

/// Frees memory of kmalloc, or an object of any cache.
///
/// # Safety
/// `object` is null, ZERO_SIZE_PTR, or live memory that no thread uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kfree(object: *const c_void) {
    // SAFETY: by the caller's promise.
    unsafe { core_api::kfree(object.cast_mut().cast()) }
}

/// As kfree, but a little faster, for a caller that has the requested size.
///
/// # Safety
/// As for kfree. The memory was allocated by the kmalloc family for exactly `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kfree_sized(object: *const c_void, size: usize) {
    // SAFETY: by the caller's promise.
    unsafe { core_api::kfree_sized(object.cast_mut().cast(), size) }
}

/// As kfree, after all bytes are overwritten with zeros.
///
/// # Safety
/// As for kfree.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kfree_sensitive(object: *const c_void) {
    let object = object.cast_mut();
    // SAFETY: by the caller's promise. `ksize` bytes of live memory may be written, and it is 0 for
    // NULL and ZERO_SIZE_PTR.
    unsafe {
        libc::explicit_bzero(object, core_api::ksize(object.cast()));
        core_api::kfree(object.cast());
    }
}

/// Frees `size` pointers of any caches and sizes. Skips null pointers.
///
/// # Safety
/// `p` holds `size` pointers, each as for kfree. None occurs twice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kfree_bulk(size: usize, p: *mut *mut c_void) {
    if !p.is_null() {
        // SAFETY: by the caller's promise; thin pointers to any type have the same layout.
        unsafe { core_api::kfree_bulk(core::slice::from_raw_parts(p.cast(), size)) };
    }
}

/// Returns the usable bytes of memory of kmalloc, at least the requested size. Returns 0 for NULL
/// and ZERO_SIZE_PTR.
///
/// # Safety
/// `object` is null, ZERO_SIZE_PTR, or live memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ksize(object: *const c_void) -> usize {
    // SAFETY: by the caller's promise.
    unsafe { core_api::ksize(object.cast()) }
}

/// Returns the bytes that kmalloc reserves for a request.
#[unsafe(no_mangle)]
pub extern "C" fn kmalloc_size_roundup(size: usize) -> usize {
    core_api::kmalloc_size_roundup(size)
}

/// As kmalloc. In the kernel, such memory need not be physically contiguous; here there is no
/// difference.
#[unsafe(no_mangle)]
pub extern "C" fn kvmalloc(size: usize, flags: gfp_t) -> *mut c_void {
    kmalloc(size, flags)
}

/// As krealloc, for memory of kvmalloc.
///
/// # Safety
/// As for krealloc.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvrealloc(p: *const c_void, size: usize, flags: gfp_t) -> *mut c_void {
    // SAFETY: by the caller's promise.
    unsafe { krealloc(p, size, flags) }
}

/// As kfree, for memory of kvmalloc and of kmalloc.
///
/// # Safety
/// As for kfree.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvfree(addr: *const c_void) {
    // SAFETY: by the caller's promise.
    unsafe { kfree(addr) }
}

/// As kvfree, after `len` bytes are overwritten with zeros.
///
/// # Safety
/// As for kfree; `len` is at most its `ksize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kvfree_sensitive(addr: *const c_void, len: usize) {
    if !addr.is_null() {
        // SAFETY: by the caller's promise.
        unsafe {
            libc::explicit_bzero(addr.cast_mut(), len);
            kfree(addr);
        }
    }
}
