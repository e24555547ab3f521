//! Prefilled sheaves: a reserve of objects that cannot fail.
//!
//! A handle is the pointer that `PrefilledSheaf::into_raw` returns: one block of kmalloc, which the
//! caller owns.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::NonNull;

use core_ashlar::PrefilledSheaf;
use libc::{EINVAL, ENOMEM};

use crate::cache::{kmem_cache, may_zero};
use crate::flags::{__GFP_NOFAIL, __GFP_ZERO, allocate, gfp_t, known};
use crate::report::{null, set_errno, warn};

/// A prefilled sheaf: objects of one cache, reserved for one owner. Used by one thread at a time.
#[derive(Debug)]
pub struct slab_sheaf {
    _opaque: [u8; 0],
}

type Sheaf = PrefilledSheaf<'static>;

/// Turns a handle back into its sheaf. The handle is invalid afterwards.
///
/// # Safety
/// `sheaf` is null or a live handle, used by no other thread, and its cache is live.
unsafe fn open(sheaf: *mut slab_sheaf) -> Option<Sheaf> {
    // SAFETY: by the caller's promise.
    NonNull::new(sheaf.cast()).map(|raw| unsafe { Sheaf::from_raw(raw) })
}

/// Returns true if the sheaf was prefilled from this cache. Reports on standard error if not.
fn belongs(function: &str, s: *const kmem_cache, sheaf: &Sheaf) -> bool {
    // SAFETY: `s` is a live cache, by the promise of the C caller.
    let cache = unsafe { &(*s).inner };
    let same = core::ptr::eq(cache, sheaf.cache());
    if !same {
        warn(format_args!(
            "{function}({}): sheaf of cache {}: expected one of this",
            cache.name(),
            sheaf.cache().name()
        ));
    }
    same
}

/// Reserves `size` objects, so that as many calls of kmem_cache_alloc_from_sheaf succeed even
/// without free memory. Returns NULL with errno ENOMEM without memory, EINVAL for a size of 0 and
/// for bad flags. __GFP_ZERO is refused; pass it when you take an object.
///
/// # Safety
/// `s` is a live cache, and lives longer than the sheaf.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_prefill_sheaf(s: *mut kmem_cache, gfp: gfp_t, size: c_uint) -> *mut slab_sheaf {
    const NAME: &str = "kmem_cache_prefill_sheaf";
    // SAFETY: by the caller's promise.
    let cache: &'static kmem_cache = unsafe { &*s };
    if size == 0 || gfp & __GFP_ZERO != 0 {
        let what = if size == 0 { "size: expected 1 or more" } else { "__GFP_ZERO: expected with alloc_from_sheaf" };
        warn(format_args!("{NAME}({}): {what}", cache.inner.name()));
        return null(EINVAL).cast();
    }
    let take = |_| cache.inner.prefill_sheaf(size as usize).map_or(core::ptr::null_mut(), |s| s.into_raw().as_ptr());
    allocate(NAME, gfp, take).cast()
}

/// Takes one of the reserved objects. Returns NULL only if none is left (errno ENOMEM) or for bad
/// flags (EINVAL). With __GFP_ZERO all its bytes are zero. kmem_cache_free frees it.
///
/// # Safety
/// `s` is the cache that the sheaf was prefilled from; no other thread uses the sheaf meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_alloc_from_sheaf(
    s: *mut kmem_cache,
    gfp: gfp_t,
    sheaf: *mut slab_sheaf,
) -> *mut c_void {
    const NAME: &str = "kmem_cache_alloc_from_sheaf";
    // SAFETY: by the caller's promise.
    let (cache, Some(mut sheaf)) = (unsafe { &*s }, unsafe { open(sheaf) }) else { return null(EINVAL) };
    let good = belongs(NAME, s, &sheaf) && known(NAME, gfp) && may_zero(cache, gfp, NAME);
    let object = if good { sheaf.alloc() } else { None };
    // The caller keeps the handle.
    let _ = sheaf.into_raw();
    match object {
        Some(object) => {
            if gfp & __GFP_ZERO != 0 {
                // SAFETY: the object has that many bytes, and no caller has it yet.
                unsafe { object.as_ptr().write_bytes(0, cache.inner.object_size()) };
            }
            object.as_ptr().cast()
        }
        None => null(if good { ENOMEM } else { EINVAL }),
    }
}

/// Reserves more objects, until there are at least `size`. The sheaf may move; then `*sheafp` is
/// updated. Returns 0, -ENOMEM or -EINVAL. After a failure the sheaf is unchanged.
///
/// # Safety
/// `s` is the cache that the sheaf was prefilled from; no other thread uses the sheaf meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_refill_sheaf(
    s: *mut kmem_cache,
    gfp: gfp_t,
    sheafp: *mut *mut slab_sheaf,
    size: c_uint,
) -> c_int {
    const NAME: &str = "kmem_cache_refill_sheaf";
    // SAFETY: by the caller's promise.
    let place = unsafe { sheafp.as_mut() };
    // SAFETY: a non-null `*sheafp` is a live handle, by the caller's promise.
    let Some((place, mut sheaf)) = place.and_then(|place| unsafe { open(*place) }.map(|sheaf| (place, sheaf))) else {
        return -EINVAL;
    };
    let good = belongs(NAME, s, &sheaf) && known(NAME, gfp & !__GFP_ZERO) && gfp & __GFP_ZERO == 0;
    let mut done = false;
    if good {
        // Null if the refill failed, which __GFP_NOFAIL excludes. The address itself is not used.
        let token = allocate(NAME, gfp, |_| {
            done = sheaf.refill(size as usize).is_ok();
            if done { NonNull::<u8>::dangling().as_ptr() } else { core::ptr::null_mut() }
        });
        debug_assert!(done != token.is_null() && (done || gfp & __GFP_NOFAIL == 0));
    }
    *place = sheaf.into_raw().as_ptr().cast();
    match (good, done) {
        (_, true) => 0,
        (true, false) => -ENOMEM,
        (false, false) => -EINVAL,
    }
}

/// Returns a sheaf and its remaining objects to the cache. Does nothing for a null sheaf.
///
/// # Safety
/// `s` is the cache that the sheaf was prefilled from, or null; no thread uses the sheaf any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_return_sheaf(s: *mut kmem_cache, gfp: gfp_t, sheaf: *mut slab_sheaf) {
    // The sheaf holds its cache, and its return needs no memory, so the kernel's two arguments are
    // not used.
    let _ = (s, gfp);
    // SAFETY: by the caller's promise.
    drop(unsafe { open(sheaf) });
}

/// Returns the number of objects left in a sheaf; 0 for a null pointer.
///
/// # Safety
/// `sheaf` is a live sheaf, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_sheaf_size(sheaf: *mut slab_sheaf) -> c_uint {
    // SAFETY: by the caller's promise.
    let Some(sheaf) = (unsafe { open(sheaf) }) else {
        set_errno(EINVAL);
        return 0;
    };
    let len = sheaf.len();
    let _ = sheaf.into_raw();
    len as c_uint
}
