//! The registry: every cache of the process, and the memory of those that are gone.
//!
//! Lock: the *registry lock* (the kernel's slab_mutex), before all others. Creation, destruction and walks over
//! all caches hold it; allocation paths only ever try it, when the zone is about to grow.
#![allow(unsafe_code, reason = "caches live in metadata memory")]

use crate::engine::slub::barn::Barn;
use crate::engine::slub::{self, Node};
use crate::engine::{Constructor, Origin, Plan, RawCache};
use crate::error::CreateError;
use crate::page::meta::META;
use crate::page::zone::ZONE;
use crate::percpu::area::{MAX_CACHES, PERCPU};
use crate::slab::geometry::Geometry;
use crate::sync::{Ordering, SpinLock};

struct Registry {
    caches: [*mut RawCache; MAX_CACHES],
    count: usize,
    next_serial: u32,
}

// SAFETY: the entries point to caches in metadata memory, which any thread may use; the table itself is
// reached under the lock only.
unsafe impl Send for Registry {}

static REGISTRY: SpinLock<Registry> =
    SpinLock::new(Registry { caches: [core::ptr::null_mut(); MAX_CACHES], count: 0, next_serial: 1 });

/// Metadata memory for `count` values, filled by `make`; never given back.
fn meta_slice<T>(count: usize, mut make: impl FnMut() -> Option<T>) -> Option<&'static [T]> {
    let memory = META.alloc(count * size_of::<T>(), align_of::<T>().max(128))?.as_ptr().cast::<T>();
    for i in 0..count {
        // SAFETY: fresh memory for `count` values, aligned for them.
        unsafe { memory.add(i).write(make()?) };
    }
    // SAFETY: all values were just initialised and the memory is never given back.
    Some(unsafe { core::slice::from_raw_parts(memory, count) })
}

/// Node entries for a new cache.
fn new_nodes() -> Option<&'static [Node]> {
    let cpus = PERCPU.cpus.load(Ordering::Relaxed) as usize;
    let barns = cpus.clamp(1, slub::MAX_BARNS);
    meta_slice(ZONE.nodes(), || Some(Node::new(meta_slice(barns, || Some(Barn::new()))?)))
}

/// What the registry cannot know of a new cache.
pub(crate) struct NewCache<'a> {
    pub(crate) name: &'a str,
    pub(crate) geometry: Geometry,
    pub(crate) ctor: Option<Constructor>,
    pub(crate) sheaf_capacity: usize,
    pub(crate) barn_limit: usize,
    pub(crate) min_partial: usize,
    pub(crate) origin: Origin,
    /// A slot that the caller claimed; `None`: any.
    pub(crate) slot: Option<u16>,
}

/// Enters a new cache.
pub(crate) fn register(new: &NewCache<'_>) -> Result<&'static RawCache, CreateError> {
    let mut registry = REGISTRY.lock();
    // An entry of a destroyed cache is used again, with its node entries, which are empty.
    let count = registry.count;
    let free = registry.caches[..count].iter().copied().find(|&c| {
        // SAFETY: entries below `count` point to caches that are never unmapped.
        unsafe { (*c).serial.load(Ordering::Relaxed) == 0 }
    });
    if free.is_none() && count == MAX_CACHES {
        return Err(CreateError::TooManyCaches);
    }
    let slot = new.slot.or_else(|| PERCPU.claim_slot()).ok_or(CreateError::TooManyCaches)?;
    let (place, nodes) = match free {
        // SAFETY: as above; nobody uses a destroyed cache.
        Some(place) => (Some(place), Some(unsafe { (*place).nodes })),
        None => {
            let place = META.alloc(size_of::<RawCache>(), align_of::<RawCache>().max(64));
            (place.map(|p| p.as_ptr().cast()), new_nodes())
        }
    };
    let (Some(place), Some(nodes)) = (place, nodes) else {
        PERCPU.release_slot(slot);
        return Err(CreateError::OutOfMemory);
    };
    nodes.iter().for_each(Node::reset_counts);
    let serial = registry.next_serial;
    registry.next_serial = serial.wrapping_add(1).max(1);
    let plan = Plan {
        name: new.name,
        geometry: new.geometry,
        slot,
        secret: secret(serial),
        ctor: new.ctor,
        sheaf_capacity: new.sheaf_capacity,
        barn_limit: new.barn_limit,
        min_partial: new.min_partial,
        nodes,
        origin: new.origin,
    };
    // SAFETY: the place is unused memory of a cache's size and alignment; written before anyone can see it.
    let cache = unsafe {
        place.write(RawCache::new(&plan, serial));
        &*place
    };
    if free.is_none() {
        registry.caches[count] = place;
        registry.count += 1;
    }
    Ok(cache)
}

/// A key for the free links of one cache.
fn secret(serial: u32) -> u64 {
    #[cfg(feature = "os")]
    let random = crate::os::random_u64();
    #[cfg(not(feature = "os"))]
    let random = (&raw const REGISTRY as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // The upper half must not be zero, or small corrupt links would pass for good ones.
    (random ^ u64::from(serial)) | 1 << 63
}

/// Removes a cache if `empty` finds that it holds no slabs and no sheaves. Runs under the registry lock, so that no
/// reaper has a sheaf of the cache in hand meanwhile.
pub(crate) fn unregister_if(cache: &'static RawCache, empty: impl FnOnce() -> bool) -> bool {
    let _registry = REGISTRY.lock();
    let gone = empty();
    if gone {
        PERCPU.release_slot(cache.slot);
        cache.serial.store(0, Ordering::Relaxed);
    }
    gone
}

/// The cache in place `index` of the table: `None` behind the end, `Some(None)` for a place that is free now.
pub(crate) fn nth(index: usize) -> Option<Option<&'static RawCache>> {
    let registry = REGISTRY.lock();
    let place = *registry.caches[..registry.count].get(index)?;
    // SAFETY: entries below `count` point to caches that are never unmapped.
    let cache = unsafe { &*place };
    Some((cache.serial.load(Ordering::Relaxed) != 0).then_some(cache))
}

/// Calls `each` for every cache, in order of creation of their entries, under the registry lock.
pub(crate) fn for_each(mut each: impl FnMut(&'static RawCache)) {
    let registry = REGISTRY.lock();
    for &cache in &registry.caches[..registry.count] {
        // SAFETY: entries below `count` point to caches that are never unmapped.
        let cache = unsafe { &*cache };
        if cache.serial.load(Ordering::Relaxed) != 0 {
            each(cache);
        }
    }
}

/// As [`for_each`], if nobody holds the lock; false, and nothing done, otherwise. For allocation paths, which may run
/// inside something that holds it.
pub(crate) fn try_for_each(mut each: impl FnMut(&'static RawCache)) -> bool {
    let Some(registry) = REGISTRY.try_lock() else { return false };
    for &cache in &registry.caches[..registry.count] {
        // SAFETY: entries below `count` point to caches that are never unmapped.
        let cache = unsafe { &*cache };
        if cache.serial.load(Ordering::Relaxed) != 0 {
            each(cache);
        }
    }
    true
}

/// The cache that owns an address, if it is an address in a slab.
pub(crate) fn cache_of_address(address: usize) -> Option<&'static RawCache> {
    use crate::page::memmap::{MEMMAP, PageKind};
    use crate::units::PageIndex;
    let page = MEMMAP.page_of(address)?;
    let class = MEMMAP.class_of(page);
    if class.kind() != PageKind::Slab {
        return None;
    }
    let owner = MEMMAP.head(PageIndex(page.0 - class.back())).owner();
    // SAFETY: the owner field of a slab page's head is the address of its cache, which is never unmapped.
    Some(unsafe { &*(owner as *const RawCache) })
}

/// Takes the registry lock and those of all caches, for fork.
pub(crate) fn lock_all() {
    REGISTRY.lock_raw();
}

/// Locks, or unlocks, the nodes of every cache; the registry lock is held.
pub(crate) fn for_each_locked(lock: bool) {
    // SAFETY: the caller (fork) holds the registry lock by lock_raw, so the table does not change; only a
    // shared look at it is taken here, through a pointer, since no guard exists.
    let registry = unsafe { &*REGISTRY.data_ptr() };
    for &cache in &registry.caches[..registry.count] {
        // SAFETY: as in `for_each`.
        let nodes = unsafe { (*cache).nodes };
        if lock {
            slub::lock_nodes(nodes);
        } else {
            // SAFETY: fork called this with `lock` true before, on the same registry.
            unsafe { slub::unlock_nodes(nodes) };
        }
    }
}

/// Releases what [`lock_all`] took.
///
/// # Safety
/// This thread, or its parent's across fork, called `lock_all`.
pub(crate) unsafe fn unlock_all() {
    // SAFETY: by the caller's promise.
    unsafe { REGISTRY.unlock_raw() };
}
