//! The size classes of kmalloc: the kernel's, up to 64 KiB, and their caches.
//!
//! Sizes above are large objects ([`super::large`]). Source: the kernel's `kmalloc_info` and
//! `kmalloc_index`.
#![allow(unsafe_code, reason = "caches are found by their address")]

use crate::base::sync::{AtomicPtr, AtomicUsize, Ordering};
#[cfg(feature = "os")]
use crate::base::sync::{AtomicU32, AtomicU64};
use crate::base::units::{BLOCK_SIZE, LARGEST_CLASS, PAGE_SIZE, checked_align_up};
use crate::cache::{CacheArgs, create_raw};
#[cfg(feature = "os")]
use crate::engine::process_secret;
use crate::engine::route::is_hardened;
use crate::engine::{Engine, Policy, RawCache};
use crate::pages::zone::ZONE;
use crate::percpu::area::{CLASS_CACHES, CLASS_SLOTS, SLOT_BYTES};

/// Largest size that the fast paths serve, in bytes (the kernel's `KMALLOC_MAX_CACHE_SIZE`: two
/// pages). It is at most the largest class, which pages of 64 KiB exceed.
pub const KMALLOC_MAX_CACHE_SIZE: usize = if 2 * PAGE_SIZE < LARGEST_CLASS { 2 * PAGE_SIZE } else { LARGEST_CLASS };
/// Sizes below this take the fast path of `kmalloc`. It is 0 until the caches exist, when no
/// section may run (see [`PERCPU`]). It stays 0 where kmalloc has no sheaves, in a hardened
/// process, and where call sites choose the cache (`call_site`). For frees by address
/// [`MemMap::fast_pages`](crate::pages::memmap::MemMap) is the same.
pub(crate) static LIMIT: AtomicUsize = AtomicUsize::new(0);
/// Sized frees of less than this many bytes take the fast path; 0 if frees must examine the page.
pub(crate) static SIZED_FREE_LIMIT: AtomicUsize = AtomicUsize::new(0);
/// Whether sized frees beyond that limit are frees by address: not 0 if kmalloc's engine has
/// sheaves, and there are several nodes, a profile has run, or call sites choose the cache.
pub(crate) static SIZED_FREES_BY_ADDRESS: AtomicUsize = AtomicUsize::new(0);

/// What the choice of a cache by call site depends on beside the site; 0 without the option.
#[cfg(feature = "os")]
pub(super) static SEED: AtomicU64 = AtomicU64::new(0);
/// The `gfp_t` bits with which C's `kmalloc` takes its fast path.
#[cfg(feature = "os")]
pub const PLAIN_FLAGS: u32 = 0x7f_7cf9;
/// The bits with which it does not: all where its slow path is to pass on the call site.
#[cfg(feature = "os")]
pub static SLOW_FLAGS: AtomicU32 = AtomicU32::new(!PLAIN_FLAGS);

/// The size classes: the kernel's, and three more for whole pages, which the kernel leaves to the
/// per-CPU lists of its page allocator.
const CLASSES: [(usize, &str); CLASS_CACHES] = [
    (8, "kmalloc-8"),
    (16, "kmalloc-16"),
    (32, "kmalloc-32"),
    (64, "kmalloc-64"),
    (96, "kmalloc-96"),
    (128, "kmalloc-128"),
    (192, "kmalloc-192"),
    (256, "kmalloc-256"),
    (512, "kmalloc-512"),
    (1024, "kmalloc-1k"),
    (2048, "kmalloc-2k"),
    (4096, "kmalloc-4k"),
    (8192, "kmalloc-8k"),
    (16384, "kmalloc-16k"),
    (32768, "kmalloc-32k"),
    (LARGEST_CLASS, "kmalloc-64k"),
];
/// The policy of these caches. `kfree` gets the address of an object alone.
static KMALLOC: Policy = Policy { family: 1, by_address: true, ..Policy::GENEROUS };
/// The largest size that has a cache, which depends on the engine; 0 until the caches exist.
static MAX_CACHE: AtomicUsize = AtomicUsize::new(0);
/// Sizes up to this need only the look-up of their cache; 0 if kmalloc's engine has sheaves or
/// needs the size as well, and where call sites choose the cache.
pub(crate) static DIRECT_MAX: AtomicUsize = AtomicUsize::new(0);

static CACHES: [AtomicPtr<RawCache>; CLASSES.len()] = [const { AtomicPtr::new(core::ptr::null_mut()) }; CLASSES.len()];
/// The slot offset of the cache for each size up to 8 KiB. Size 0 has the slot that is always
/// empty.
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) static SIZE_SLOT: [u16; KMALLOC_MAX_CACHE_SIZE + 1] = {
    let mut table = [0; KMALLOC_MAX_CACHE_SIZE + 1];
    let (mut size, mut class) = (1, 0);
    while size < table.len() {
        if size > CLASSES[class].0 {
            class += 1;
        }
        table[size] = slot_of(class);
        size += 1;
    }
    table
};

/// Returns the slot offset of a class.
const fn slot_of(class: usize) -> u16 {
    (CLASS_SLOTS + class * SLOT_BYTES) as u16
}

/// The slot offset of the cache for each size up to 8 KiB, in steps of 8 rounded up, for fast paths
/// in a kernel. Size 0 has the slot that is always empty.
#[cfg(not(feature = "os"))]
static SMALL_SLOT: [u16; KMALLOC_MAX_CACHE_SIZE / 8 + 1] = {
    let mut table = [0; KMALLOC_MAX_CACHE_SIZE / 8 + 1];
    let mut step = 1;
    while step < table.len() {
        table[step] = slot_of(SMALL_CLASS[step] as usize);
        step += 1;
    }
    table
};

/// Returns the slot offset for a size of at most [`KMALLOC_MAX_CACHE_SIZE`].
#[cfg(not(feature = "os"))]
#[inline]
pub(crate) fn small_slot(size: usize) -> u16 {
    SMALL_SLOT[(size + 7) >> 3]
}

/// The class of each size up to 8 KiB, in steps of 8 rounded up. Engines whose calls all take the
/// slow path use it.
static SMALL_CLASS: [u8; KMALLOC_MAX_CACHE_SIZE / 8 + 1] = {
    let mut table = [0; KMALLOC_MAX_CACHE_SIZE / 8 + 1];
    let (mut step, mut class) = (0, 0);
    while step < table.len() {
        if step * 8 > CLASSES[class].0 {
            class += 1;
        }
        table[step] = class as u8;
        step += 1;
    }
    table
};

/// Returns the class of a size of 1 byte to [`LARGEST_CLASS`].
#[inline]
fn class_of(size: usize) -> usize {
    if size <= KMALLOC_MAX_CACHE_SIZE {
        return usize::from(SMALL_CLASS[size.div_ceil(8)]);
    }
    CLASSES.iter().position(|&(class, _)| size <= class).unwrap_or(CLASSES.len() - 1)
}

/// Whether requests of `size` bytes are served by a cache.
#[inline]
fn has_cache(size: usize) -> bool {
    size <= MAX_CACHE.load(Ordering::Relaxed)
}

/// Creates the caches. Start-up calls this, again after a failure, and again in the child of a fork
/// that interrupted it. Then it finds those that exist.
pub(crate) fn create_caches() -> bool {
    let options = crate::cache::settings::options();
    let engine = options.engine;
    #[cfg(feature = "os")]
    if options.random_kmalloc && !is_by_call_site() {
        SEED.store(process_secret() | 1, Ordering::Relaxed);
        SLOW_FLAGS.store(!0, Ordering::Relaxed);
    }
    let mut from = 1;
    for (class, (size, name)) in CLASSES.into_iter().enumerate() {
        // The last cache holds the largest size that the engine has caches for, even if that is not
        // a class.
        if from > engine.max_class() {
            break;
        }
        if !engine.has_class(size) {
            continue;
        }
        let Some(raw) = create(name, size, Some(slot_of(class))) else { return false };
        CACHES[class].store(core::ptr::from_ref(raw).cast_mut(), Ordering::Release);
        // Sizes of classes that the engine does without go to the next class.
        for skipped in CACHES[..class].iter().rev().take_while(|cache| cache.load(Ordering::Relaxed).is_null()) {
            skipped.store(core::ptr::from_ref(raw).cast_mut(), Ordering::Release);
        }
        from = size + 1;
    }
    MAX_CACHE.store(engine.max_class(), Ordering::Release);
    open_allocations(engine);
    if has_fast_paths(engine) {
        // With several nodes, sized frees must examine the node of the object. Where call sites
        // choose, the size does not lead to the cache.
        if ZONE.nodes() > 1 || is_by_call_site() {
            close_sized_frees();
        } else {
            SIZED_FREE_LIMIT.store(KMALLOC_MAX_CACHE_SIZE + 1, Ordering::Release);
        }
    }
    true
}

/// Creates a cache of a class, at `slot` if it has one of its own.
fn create(name: &str, size: usize, slot: Option<u16>) -> Option<&'static RawCache> {
    // The largest power of two that divides the size, as the kernel promises.
    let align = (1usize << size.trailing_zeros()).min(PAGE_SIZE);
    let args = CacheArgs { align, ..CacheArgs::default() };
    create_raw(name, size, &args, &KMALLOC, slot).ok()
}

/// Creates one more cache like that of a class.
#[cfg(feature = "os")]
#[place(cold)]
pub(super) fn create_copy(class: usize, name: &str) -> Option<&'static RawCache> {
    create(name, CLASSES[class].0, None)
}

/// Returns the class whose cache is `own`, which serves `size` bytes. Engines leave classes out.
#[cfg(feature = "os")]
#[place(cold)]
pub(super) fn existing_class(size: usize, own: &RawCache) -> usize {
    let first = class_of(size);
    let next = (first..CLASSES.len()).take_while(|&class| core::ptr::eq(cache(class), own)).last();
    next.unwrap_or(first)
}

/// Whether call sites choose the caches, with the option `random_kmalloc`.
#[inline]
pub(crate) fn is_by_call_site() -> bool {
    #[cfg(feature = "os")]
    return SEED.load(Ordering::Relaxed) != 0;
    #[cfg(not(feature = "os"))]
    false
}

/// Returns whether the fast paths may take objects from sheaves.
pub(crate) fn has_fast_paths(engine: Engine) -> bool {
    engine.has_sheaves() && !is_hardened()
}

/// Opens the shortest way to an object that kmalloc has with this engine.
fn open_allocations(engine: Engine) {
    if is_by_call_site() {
        return;
    }
    if has_fast_paths(engine) {
        LIMIT.store(KMALLOC_MAX_CACHE_SIZE + 1, Ordering::Release);
    } else if !engine.wants_size() {
        DIRECT_MAX.store(engine.max_class().min(KMALLOC_MAX_CACHE_SIZE), Ordering::Release);
    }
}

/// Returns whether guard sampling includes objects of any class that exists.
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn is_guarded() -> bool {
    MAX_CACHE.load(Ordering::Acquire) != 0 && (0..CLASSES.len()).filter_map(existing).any(|cache| cache.guarded)
}

/// Returns the cache of a class; `None` if there is none.
#[cfg(feature = "os")]
#[place(cold)]
fn existing(class: usize) -> Option<&'static RawCache> {
    // SAFETY: what is stored here is a cache of the registry, which is never destroyed.
    unsafe { CACHES[class].load(Ordering::Acquire).as_ref() }
}

/// Has sized frees examine the page of the object, as `kfree` does.
pub(crate) fn close_sized_frees() {
    SIZED_FREE_LIMIT.store(0, Ordering::Release);
    SIZED_FREES_BY_ADDRESS.store(1, Ordering::Release);
}

/// Closes the short ways of `kmalloc`, while a profile counts the calls.
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn close_fast_path() {
    LIMIT.store(0, Ordering::Release);
    DIRECT_MAX.store(0, Ordering::Release);
}

/// Opens them again, if kmalloc has started.
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn open_fast_path() {
    if MAX_CACHE.load(Ordering::Acquire) != 0 {
        open_allocations(cache(0).engine);
    }
}

fn cache(class: usize) -> &'static RawCache {
    // SAFETY: `create_caches` stored a cache for every class before it raised `MAX_CACHE` and
    // `DIRECT_MAX`, and these caches are never destroyed.
    unsafe { &*CACHES[class].load(Ordering::Acquire) }
}

/// Whether a size needs no more than [`direct_cache`]: see [`DIRECT_MAX`].
#[cfg(not(all(feature = "os", target_arch = "x86_64")))]
#[inline(always)]
pub(crate) fn is_direct(size: usize) -> bool {
    size.wrapping_sub(1) < DIRECT_MAX.load(Ordering::Acquire)
}

/// Returns the cache for a size that needs no more: see [`DIRECT_MAX`].
#[inline(always)]
pub(crate) fn direct_cache(size: usize) -> &'static RawCache {
    cache(usize::from(SMALL_CLASS[size.div_ceil(8)]))
}

/// Returns the cache for a size of 1 byte or more; `None` for sizes that are runs of pages, and
/// before start-up.
pub(crate) fn class_cache(size: usize) -> Option<&'static RawCache> {
    has_cache(size).then(|| cache(class_of(size)))
}

/// Returns the alignment of a size that is a run of pages. The kernel aligns powers of two to
/// themselves; here that holds up to the 2 MiB that the zone can align to. The number of pages
/// decides, not the number of bytes, because krealloc may use all bytes of the pages later.
pub(crate) fn natural_align(size: usize) -> usize {
    match checked_align_up(size, PAGE_SIZE) {
        Some(bytes) if bytes.is_power_of_two() => bytes.min(BLOCK_SIZE),
        _ => PAGE_SIZE,
    }
}

/// Returns the bytes that `kmalloc` reserves for a request of `size` bytes (the kernel's
/// `kmalloc_size_roundup`).
pub fn kmalloc_size_roundup(size: usize) -> usize {
    // Reading the options takes a lock; the engine of an existing cache does not.
    let engine = match MAX_CACHE.load(Ordering::Acquire) {
        0 => crate::cache::settings::options().engine,
        _ => cache(0).engine,
    };
    match size {
        0 => 0,
        _ if size <= engine.max_class() => engine.round_up(size, CLASSES[class_of(size)].0),
        _ => checked_align_up(size, PAGE_SIZE).unwrap_or(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_the_kernels() {
        for (size, class) in [(1, 8), (8, 8), (9, 16), (65, 96), (97, 128), (129, 192), (193, 256), (257, 512)] {
            assert_eq!(kmalloc_size_roundup(size), class, "size {size}");
        }
        assert_eq!(kmalloc_size_roundup(8192), 8192);
        assert_eq!(kmalloc_size_roundup(8193), 16384);
        assert_eq!(kmalloc_size_roundup(65537), 65536 + PAGE_SIZE);
        assert_eq!(kmalloc_size_roundup(0), 0);
    }
}
