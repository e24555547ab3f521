//! Layer 6, kmalloc: objects of any size.
//!
//! Sizes up to 64 KiB come from caches, one for each size class; larger ones are runs of pages of the zone; those
//! above 32 MiB are mappings of their own. Source: the kernel's `kmalloc_info` and
//! `kmalloc_index`.
//!
//! * [`entry`]: the entry points `kmalloc`, `kfree` and `kfree_sized` with their fast paths.
//! * this file: the size classes and everything behind the fast paths.
#![allow(unsafe_code, reason = "hands out and takes back raw memory")]

pub(crate) mod entry;

use core::ptr::NonNull;

use crate::base::report;
use crate::base::sync::{AtomicPtr, AtomicUsize, Ordering};
use crate::base::units::{LARGEST_CLASS, NodeId, Order, PAGE_SIZE, PageIndex};
use crate::cache::{CacheArgs, create_raw, registry};
use crate::engine::history::slob::{self, ObjectState};
use crate::engine::{self, Policy, RawCache};
use crate::pages::direct::{self, Fill};
use crate::pages::memmap::{ClassWord, MEMMAP, PageKind};
use crate::pages::objmap::OBJECTS;
use crate::pages::zone::{DIRECT_BYTES, DirtyParts, PageRun, RunAlign, ZONE};
use crate::percpu::area::{CLASS_CACHES, CLASS_SLOTS, PERCPU, SLOT_BYTES};
use crate::percpu::{self, pages};
pub use entry::{kfree, kfree_sized, kmalloc};

/// Largest size that the fast paths serve, in bytes (the kernel's `KMALLOC_MAX_CACHE_SIZE`: two pages).
pub const KMALLOC_MAX_CACHE_SIZE: usize = 2 * PAGE_SIZE;
/// Largest size at all, in bytes; larger requests fail.
pub const KMALLOC_MAX_SIZE: usize = isize::MAX as usize - DIRECT_BYTES;
/// What a request of 0 bytes returns: no memory, but not null either. Freeing it is a no-op.
pub const ZERO_SIZE_PTR: *mut u8 = core::ptr::without_provenance_mut(16);

/// The size classes: the kernel's, and three more for whole pages, which the kernel leaves to the per-CPU lists of
/// its page allocator.
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
/// Of its caches: who frees an object has its address alone.
static KMALLOC: Policy = Policy { family: 1, by_address: true, ..Policy::GENEROUS };
/// Larger sizes are runs of pages; 0 until the caches exist. As the engine of kmalloc has it
/// (`Engine::max_class`).
static MAX_CACHE: AtomicUsize = AtomicUsize::new(0);

static CACHES: [AtomicPtr<RawCache>; CLASSES.len()] = [const { AtomicPtr::new(core::ptr::null_mut()) }; CLASSES.len()];
/// For each size up to 8 KiB the slot offset of its cache; 0 (the slot that is always empty) for size 0.
#[cfg(all(target_arch = "x86_64", feature = "os"))]
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

/// The slot offset of a class.
const fn slot_of(class: usize) -> u16 {
    (CLASS_SLOTS + class * SLOT_BYTES) as u16
}

/// For each size up to 8 KiB, in steps of 8 rounded up, its class: for engines that take every call behind the entry points.
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

/// The class of a size of 1 byte to [`LARGEST_CLASS`].
#[inline]
fn class_of(size: usize) -> usize {
    if size <= KMALLOC_MAX_CACHE_SIZE {
        return usize::from(SMALL_CLASS[size.div_ceil(8)]);
    }
    CLASSES.iter().position(|&(class, _)| size <= class).unwrap_or(CLASSES.len() - 1)
}

/// True if requests of `size` bytes go to a cache.
#[inline]
fn has_cache(size: usize) -> bool {
    size <= MAX_CACHE.load(Ordering::Relaxed)
}

/// Creates the kmalloc caches. Called by the boot, and again after a failure and in the child of a fork amid that: then it finds those that are
/// there.
pub(crate) fn create_caches() -> bool {
    let engine = crate::cache::settings::options().engine;
    let mut from = 1;
    for (class, (size, name)) in CLASSES.into_iter().enumerate() {
        // The last one holds the largest size that the engine has caches for, if that is no class of its own.
        if from > engine.max_class() {
            break;
        }
        if !engine.has_class(size) {
            continue;
        }
        // The largest power of two that divides the size: what the kernel promises.
        let align = (1usize << size.trailing_zeros()).min(PAGE_SIZE);
        let args = CacheArgs { align, ..CacheArgs::default() };
        let Ok(raw) = create_raw(name, size, &args, &KMALLOC, Some(slot_of(class))) else { return false };
        CACHES[class].store(core::ptr::from_ref(raw).cast_mut(), Ordering::Release);
        // Sizes of a class that the engine does without go to the next.
        if class > 0 && CACHES[class - 1].load(Ordering::Relaxed).is_null() {
            CACHES[class - 1].store(core::ptr::from_ref(raw).cast_mut(), Ordering::Release);
        }
        from = size + 1;
    }
    MAX_CACHE.store(engine.max_class(), Ordering::Release);
    if engine.has_sheaves() {
        // Sized frees must look at the node of the object where there are several.
        let limit = if PERCPU.nodes.load(Ordering::Relaxed) > 1 { 0 } else { KMALLOC_MAX_CACHE_SIZE + 1 };
        entry::LIMIT.store(KMALLOC_MAX_CACHE_SIZE + 1, Ordering::Release);
        entry::SIZED_FREE_LIMIT.store(limit, Ordering::Release);
        MEMMAP.open_fast_path();
    } else if !engine.wants_size() {
        DIRECT_MAX.store(engine.max_class().min(KMALLOC_MAX_CACHE_SIZE), Ordering::Release);
    }
    true
}

/// Sizes up to this go straight to their cache, where kmalloc's engine has no sheaves; 0 where it has, or wants to know the
/// size as well.
static DIRECT_MAX: AtomicUsize = AtomicUsize::new(0);

fn cache(class: usize) -> &'static RawCache {
    // SAFETY: `create_caches` stored a cache for every class before it told of sizes that have one, and caches of
    // kmalloc are never destroyed.
    unsafe { &*CACHES[class].load(Ordering::Acquire) }
}

/// `kmalloc` when the fast path had nothing. Engines without sheaves have every call here, so theirs come first: two
/// instructions of the entry point and this look-up are all that they pay for not being the default.
pub(crate) extern "C" fn kmalloc_slow(size: usize) -> *mut u8 {
    if size.wrapping_sub(1) < DIRECT_MAX.load(Ordering::Acquire) {
        return engine::alloc(cache(usize::from(SMALL_CLASS[size.div_ceil(8)])));
    }
    kmalloc_rest(size)
}

#[cold]
#[inline(never)]
fn kmalloc_rest(size: usize) -> *mut u8 {
    if size == 0 {
        return ZERO_SIZE_PTR;
    }
    if !crate::boot::ensure() {
        return core::ptr::null_mut();
    }
    if !has_cache(size) {
        return alloc_large(size, natural_align(size), Fill::Any).map_or(core::ptr::null_mut(), NonNull::as_ptr);
    }
    engine::alloc_sized(cache(class_of(size)), size)
}

/// The cache that serves a size of 1 byte or more; `None` for sizes that are runs of pages. The allocator is up.
pub(crate) fn class_cache(size: usize) -> Option<&'static RawCache> {
    has_cache(size).then(|| cache(class_of(size)))
}

/// The alignment of kmalloc for sizes that are runs of pages. What the kernel promises of powers of two: they are aligned
/// to themselves, here up to the 2 MiB that the zone can align to. It is a matter of the pages, not of the bytes asked
/// for, since krealloc may later use all of them.
pub(crate) fn natural_align(size: usize) -> usize {
    match crate::base::units::checked_align_up(size, PAGE_SIZE) {
        Some(bytes) if bytes.is_power_of_two() => bytes.min(crate::base::units::BLOCK_SIZE),
        _ => PAGE_SIZE,
    }
}

/// Pages for `size` bytes at a multiple of `align` (up to 2 MiB), all zero if `fill` asks for that.
pub(crate) fn alloc_large(size: usize, align: usize, fill: Fill) -> Option<NonNull<u8>> {
    alloc_large_on(PERCPU.node_of(percpu::this_cpu()), size, align, fill)
}

/// As [`alloc_large`], of the node `home` if that has them.
pub(crate) fn alloc_large_on(home: NodeId, size: usize, align: usize, fill: Fill) -> Option<NonNull<u8>> {
    if size > KMALLOC_MAX_SIZE {
        return None;
    }
    if size.max(align) > DIRECT_BYTES {
        return direct::map(size, align, fill);
    }
    // An aligned run is aligned to its size rounded up to a power of two, at most to 2 MiB: so it may have to be longer.
    let pages = size.div_ceil(PAGE_SIZE).max(align.min(crate::base::units::BLOCK_SIZE) / PAGE_SIZE);
    let place = if align <= PAGE_SIZE { RunAlign::Anywhere } else { RunAlign::Aligned };
    let nodes = ZONE.nodes() as u8;
    let mut dirty = DirtyParts::default();
    let mut take = || {
        (0..nodes).find_map(|i| {
            let node = NodeId((home.0 + i) % nodes);
            take_run(node, pages, place, fill, &mut dirty).map(|run| (run, node))
        })
    };
    let Some((run, node)) = take().or_else(|| ZONE.take_after_all(take)) else {
        // The zone is full; a mapping of its own is still better than nothing.
        return direct::map(size, align, fill);
    };
    let head = MEMMAP.head(run.first);
    head.init(0, 0, 0, node.0);
    head.state.store(pages as u64, Ordering::Relaxed);
    MEMMAP.set_class(run.first, 1, ClassWord::new(PageKind::LargeHead, 0, 0), |_| ClassWord::FREE);
    let at = NonNull::new(MEMMAP.address_of(run.first) as *mut u8)?;
    if fill == Fill::Zeros {
        zero(at, pages * PAGE_SIZE, run.zeroed, &dirty);
    }
    Some(at)
}

/// Makes a run of `bytes` bytes, just taken out of the zone, read as zeros. Pages that do so
/// already are not touched, because a program may have asked for a large table of which it uses a
/// few entries.
fn zero(at: NonNull<u8>, bytes: usize, zeroed: bool, dirty: &DirtyParts) {
    if !zeroed {
        for part in dirty.bytes() {
            // SAFETY: inside the run, which is the caller's.
            unsafe { at.add(part.start).write_bytes(0, part.len()) };
        }
    } else if let Some(source) = ZONE.source() {
        // SAFETY: a committed part of the zone, the caller's.
        unsafe { source.will_look(at, bytes) };
    }
}

/// A run for a large object; few pages, of a power of two, are taken off this CPU's page list. If
/// it is to be zero, `dirty` are the pages that may not be.
fn take_run(node: NodeId, pages: usize, align: RunAlign, fill: Fill, dirty: &mut DirtyParts) -> Option<PageRun> {
    *dirty = DirtyParts::default();
    match align {
        RunAlign::Aligned if pages.is_power_of_two() => {
            let run = pages::alloc(node, Order(pages.trailing_zeros() as u8))?;
            if !run.zeroed {
                *dirty = DirtyParts::all(pages);
            }
            Some(run)
        }
        _ => ZONE.alloc_noting(node, pages, align, (fill == Fill::Zeros).then_some(dirty)),
    }
}

/// What an address that a caller wants freed, or measured, turns out to be.
enum Found {
    Object(&'static RawCache),
    /// The same, of kmalloc and of so many bytes, whatever the cache says.
    Sized(&'static RawCache, usize),
    Large(PageIndex, usize),
    Direct(usize),
}

/// Finds what starts at `address`. Reports, and returns `None` for, what was not allocated here.
fn find(function: &str, address: usize) -> Option<Found> {
    let Some(page) = MEMMAP.page_of(address) else {
        if let Some(bytes) = direct::size_of_mapping(address) {
            return Some(Found::Direct(bytes));
        }
        report::invalid_pointer(function, address, None);
        return None;
    };
    match MEMMAP.class_of(page).kind() {
        PageKind::Slab => {
            let cache = registry::cache_of_address(address)?;
            match cache.slabs.locate(address) {
                // Caches of malloc may share pages; the map knows which it is.
                Ok(_) if cache.policy.tracked => {
                    return Some(Found::Object(crate::malloc::cache_of_object(address).unwrap_or(cache)));
                }
                Ok(_) => return Some(Found::Object(cache)),
                Err(_) => report::invalid_pointer(function, address, Some(cache.name())),
            }
        }
        PageKind::Slob => {
            if let Some(cache) = crate::malloc::cache_of_object(address) {
                return Some(Found::Object(cache));
            }
            match slob::object_state(address) {
                ObjectState::Live(size) => return Some(Found::Sized(cache(class_of(size)), size)),
                ObjectState::Free(size) => report::double_free(cache(class_of(size)).name(), address),
                ObjectState::None => report::invalid_pointer(function, address, None),
            }
        }
        PageKind::LargeHead if address.is_multiple_of(PAGE_SIZE) => {
            let pages = MEMMAP.head(page).state.load(Ordering::Relaxed) as usize;
            return Some(Found::Large(page, pages));
        }
        _ => report::invalid_pointer(function, address, None),
    }
    None
}

/// `kfree` when the fast path could not take the object.
pub(crate) extern "C" fn kfree_slow(ptr: *mut u8) {
    // Engines without sheaves have every call here; they look at the address themselves. But what is malloc's must leave the
    // object map too.
    if let Some((cache, slab)) = registry::slab_of_address(ptr as usize)
        && !cache.engine.has_sheaves()
        && !cache.policy.tracked
    {
        return engine::free_in(cache, slab, ptr as usize);
    }
    kfree_rest(ptr);
}

#[cold]
#[inline(never)]
fn kfree_rest(ptr: *mut u8) {
    let address = ptr as usize;
    if address <= ZERO_SIZE_PTR as usize {
        return;
    }
    match find("kfree", address) {
        Some(Found::Object(cache)) => {
            // Objects of malloc may come here too; the object map must lose them.
            if cache.policy.tracked && OBJECTS.take(address) == 0 && !cfg!(ashlar_unchecked) {
                return report::freed_twice("kfree", address, cache.name());
            }
            engine::free(cache, address);
        }
        Some(Found::Sized(cache, _)) => engine::free(cache, address),
        Some(Found::Large(page, pages)) => free_large(page, pages),
        Some(Found::Direct(_)) => {
            if let Some(at) = NonNull::new(ptr) {
                // SAFETY: the caller of kfree gives the mapping up; the table knows its size.
                unsafe { direct::unmap(at) };
            }
        }
        None => {}
    }
}

/// Gives the pages of a large object back.
pub(crate) fn free_large(page: PageIndex, pages: usize) {
    MEMMAP.set_class(page, 1, ClassWord::FREE, |_| ClassWord::FREE);
    let listable = pages.is_power_of_two() && (page.0 as usize).is_multiple_of(pages);
    let worth_reaping =
        if listable { pages::free(page, Order(pages.trailing_zeros() as u8)) } else { ZONE.free(page, pages) };
    if worth_reaping {
        crate::base::background::wake();
        crate::base::background::settle();
    }
}

/// As [`kmalloc`], with all bytes zero.
pub fn kzalloc(size: usize) -> *mut u8 {
    if size > KMALLOC_MAX_CACHE_SIZE {
        if !crate::boot::ensure() {
            return core::ptr::null_mut();
        }
        return alloc_large(size, natural_align(size), Fill::Zeros).map_or(core::ptr::null_mut(), NonNull::as_ptr);
    }
    let ptr = kmalloc(size);
    if !ptr.is_null() && size > 0 {
        // SAFETY: `size` fresh bytes.
        unsafe { ptr.write_bytes(0, size) };
    }
    ptr
}

/// Memory for `count` elements of `size` bytes; null when the product overflows.
pub fn kmalloc_array(count: usize, size: usize) -> *mut u8 {
    count.checked_mul(size).map_or(core::ptr::null_mut(), |bytes| kmalloc(bytes))
}

/// As [`kmalloc_array`], with all bytes zero.
pub fn kcalloc(count: usize, size: usize) -> *mut u8 {
    count.checked_mul(size).map_or(core::ptr::null_mut(), kzalloc)
}

/// Memory of any size; the kernel's name for what may be mapped rather than taken from the page allocator.
/// Here kmalloc does that itself.
pub fn kvmalloc(size: usize) -> *mut u8 {
    kmalloc(size)
}

/// Memory of `size` bytes at a multiple of `align`, a power of two of at most 2 MiB; null otherwise.
pub fn kmalloc_aligned(size: usize, align: usize) -> *mut u8 {
    if align <= 8 {
        return kmalloc(size);
    }
    if !align.is_power_of_two() || align > crate::base::units::BLOCK_SIZE || size > KMALLOC_MAX_SIZE {
        return core::ptr::null_mut();
    }
    // Classes that are powers of two are naturally aligned; 96 and 192 are not aligned enough.
    let fitting = size.max(align).next_power_of_two();
    if align <= PAGE_SIZE && fitting <= KMALLOC_MAX_CACHE_SIZE {
        return kmalloc(fitting);
    }
    if !crate::boot::ensure() {
        return core::ptr::null_mut();
    }
    alloc_large(size.max(1), align, Fill::Any).map_or(core::ptr::null_mut(), NonNull::as_ptr)
}

/// Bytes that may be used behind a pointer of kmalloc: at least what was asked for. 0 for null and for
/// [`ZERO_SIZE_PTR`].
///
/// # Safety
/// `ptr` came from this module, or is null, and was not freed.
pub unsafe fn ksize(ptr: *const u8) -> usize {
    let address = ptr as usize;
    if address <= ZERO_SIZE_PTR as usize {
        return 0;
    }
    match find("ksize", address) {
        Some(Found::Object(cache)) => cache.object_size(),
        Some(Found::Sized(cache, size)) => cache.engine.round_up(size, cache.object_size()),
        Some(Found::Large(_, pages)) => pages * PAGE_SIZE,
        Some(Found::Direct(bytes)) => bytes,
        None => 0,
    }
}

/// Changes the size of an object, moving it if need be. A null pointer allocates; a size of 0 frees and
/// returns [`ZERO_SIZE_PTR`]. Stays in place whenever the new size fits what the object has, as the kernel's does.
/// Null when memory ends; the old object is untouched then.
///
/// # Safety
/// As for [`kfree`]; on success the old pointer is dead.
pub unsafe fn krealloc(ptr: *mut u8, size: usize) -> *mut u8 {
    if size == 0 {
        // SAFETY: the caller's promise is that of kfree.
        unsafe { kfree(ptr) };
        return ZERO_SIZE_PTR;
    }
    // SAFETY: the caller's promise includes that of ksize.
    let old = unsafe { ksize(ptr) };
    if old == 0 || ptr as usize <= ZERO_SIZE_PTR as usize {
        return kmalloc(size);
    }
    if size <= old {
        return ptr;
    }
    if size > DIRECT_BYTES
        && MEMMAP.page_of(ptr as usize).is_none()
        && let Some(at) = NonNull::new(ptr)
    {
        // SAFETY: an address outside the zone that ksize knows starts a direct mapping; the caller lets it move.
        if let Some(moved) = unsafe { direct::remap(at, size) } {
            return moved.as_ptr();
        }
    }
    let new = kmalloc(size);
    if !new.is_null() {
        // SAFETY: both are live, `old` bytes are readable, and `new` has more; they do not overlap.
        unsafe {
            new.copy_from_nonoverlapping(ptr, old);
            kfree(ptr);
        }
    }
    new
}

/// Frees objects of any caches and sizes; neighbours of one cache go back together. Null entries are skipped.
///
/// # Safety
/// As for [`kfree`], for each of them; none occurs twice.
pub unsafe fn kfree_bulk(objects: &[*mut u8]) {
    const BATCH: usize = 64;
    let mut batch = [0usize; BATCH];
    let mut count = 0;
    let mut owner: Option<&'static RawCache> = None;
    for &object in objects {
        let cache = registry::cache_of_address(object as usize)
            .filter(|c| !c.policy.tracked && c.slabs.locate(object as usize).is_ok());
        let same = match (cache, owner) {
            (Some(a), Some(b)) => core::ptr::eq(a, b),
            _ => false,
        };
        if !same || count == BATCH {
            if let Some(cache) = owner {
                engine::free_bulk(cache, &batch[..count]);
            }
            count = 0;
            owner = cache;
        }
        if cache.is_some() {
            batch[count] = object as usize;
            count += 1;
        } else {
            // SAFETY: the caller's promise is that of kfree.
            unsafe { kfree(object) };
        }
    }
    if let Some(cache) = owner {
        engine::free_bulk(cache, &batch[..count]);
    }
}

/// Bytes that [`kmalloc`] really sets aside for a request (the kernel's `kmalloc_size_roundup`).
pub fn kmalloc_size_roundup(size: usize) -> usize {
    // The options are behind a lock; a cache knows its engine.
    let engine = match MAX_CACHE.load(Ordering::Acquire) {
        0 => crate::cache::settings::options().engine,
        _ => cache(0).engine,
    };
    let max = engine.max_class();
    match size {
        0 => 0,
        _ if size <= max => engine.round_up(size, CLASSES[class_of(size)].0),
        _ => crate::base::units::checked_align_up(size, PAGE_SIZE).unwrap_or(size),
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
        assert_eq!(kmalloc_size_roundup(65537), 69632);
        assert_eq!(kmalloc_size_roundup(0), 0);
    }
}
