//! The registry: every cache of the process, and the memory of those that are gone.
//!
//! Lock: the *registry lock* (the kernel's slab_mutex), before all others. Creation, destruction and walks over
//! all caches hold it; allocation paths only ever try it, when the zone is about to grow.
#![allow(unsafe_code, reason = "caches live in metadata memory")]

use crate::engine::{self, Constructor, Engine, EngineState, Opening, Origin, Plan, RawCache};
use crate::error::CreateError;
use crate::page::memmap::{MEMMAP, PageKind};
use crate::page::meta::META;
use crate::percpu::area::{MAX_CACHES, PERCPU};
use crate::slab::geometry::Geometry;
use crate::sync::{Ordering, SpinLock};
use crate::units::PageIndex;

struct Registry {
    caches: [*mut RawCache; MAX_CACHES],
    count: usize,
    next_serial: u32,
    /// What the keys of free links are made from; 0 before the first.
    key: u64,
}

// SAFETY: the entries point to caches in metadata memory, which any thread may use; the table itself is
// reached under the lock only.
unsafe impl Send for Registry {}

static REGISTRY: SpinLock<Registry> =
    SpinLock::new(Registry { caches: [core::ptr::null_mut(); MAX_CACHES], count: 0, next_serial: 1, key: 0 });

/// What the registry cannot know of a new cache.
pub(crate) struct NewCache<'a> {
    pub(crate) name: &'a str,
    pub(crate) geometry: Geometry,
    pub(crate) ctor: Option<Constructor>,
    pub(crate) sheaf_capacity: usize,
    pub(crate) barn_limit: usize,
    pub(crate) min_partial: usize,
    pub(crate) cpu_partial: usize,
    pub(crate) engine: Engine,
    pub(crate) noaliencache: bool,
    pub(crate) origin: Origin,
    /// One of the slots that are set aside for malloc and kmalloc; `None`: any.
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
    let (place, mut state) = match free {
        // SAFETY: as above; nobody uses a destroyed cache.
        Some(place) => (Some(place), unsafe { (*place).state }),
        None => {
            let place = META.alloc(size_of::<RawCache>(), align_of::<RawCache>().max(64));
            (place.map(|p| p.as_ptr().cast()), EngineState::EMPTY)
        }
    };
    // Those that are set aside stay so.
    let give_slot_back = || {
        if new.slot.is_none() {
            PERCPU.release_slot(slot);
        }
    };
    let Some(place) = place else {
        give_slot_back();
        return Err(CreateError::OutOfMemory);
    };
    let mut geometry = new.geometry;
    let opening = Opening {
        engine: new.engine,
        origin: new.origin,
        constructed: new.ctor.is_some(),
        noaliencache: new.noaliencache,
    };
    let opened = state.open(&opening, &mut geometry);
    // An entry whose engine could not be opened is entered all the same, as that of a destroyed cache: the next attempt
    // finds what this one made.
    let serial = if opened.is_ok() { registry.next_serial } else { 0 };
    let plan = Plan {
        name: new.name,
        geometry,
        slot,
        secret: secret(&mut registry.key, serial),
        ctor: new.ctor,
        sheaf_capacity: new.sheaf_capacity,
        barn_limit: new.barn_limit,
        min_partial: new.min_partial,
        cpu_partial: new.cpu_partial,
        engine: new.engine,
        state,
        origin: new.origin,
    };
    // SAFETY: the place is unused memory of a cache's size and alignment; written before anyone can see it.
    let cache = unsafe {
        place.write(RawCache::new(&plan, serial));
        &*place
    };
    if opened.is_ok() {
        engine::attach(cache);
    }
    if free.is_none() {
        registry.caches[count] = place;
        registry.count += 1;
    }
    if let Err(error) = opened {
        give_slot_back();
        return Err(error);
    }
    registry.next_serial = serial.wrapping_add(1).max(1);
    Ok(cache)
}

/// A key for the free links of one cache: the process's random key, mixed with the cache's number (the finaliser of
/// Steele's SplitMix64).
fn secret(key: &mut u64, serial: u32) -> u64 {
    if *key == 0 {
        #[cfg(feature = "os")]
        let random = crate::os::random_u64();
        #[cfg(not(feature = "os"))]
        let random = (&raw const REGISTRY as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        *key = random | 1;
    }
    let mut z = key.wrapping_add(u64::from(serial).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    // The upper half must not be zero, or small corrupt links would pass for good ones.
    (z ^ (z >> 31)) | 1 << 63
}

/// Removes a cache if `empty` finds that it holds no slabs and no sheaves. Runs under the registry lock, so that no
/// reaper has a sheaf of the cache in hand meanwhile.
pub(crate) fn unregister_if(cache: &'static RawCache, empty: impl FnOnce() -> bool) -> bool {
    let _registry = REGISTRY.lock();
    let gone = empty();
    if gone {
        engine::close(cache);
        PERCPU.release_slot(cache.slot);
        cache.serial.store(0, Ordering::Relaxed);
    }
    gone
}

/// What `look` says of the cache in place `index` of the table, under the registry lock: `None` behind the end,
/// `Some(None)` for a place that is free now.
pub(crate) fn nth<R>(index: usize, look: impl FnOnce(&'static RawCache) -> R) -> Option<Option<R>> {
    let registry = REGISTRY.lock();
    let place = *registry.caches[..registry.count].get(index)?;
    // SAFETY: entries below `count` point to caches that are never unmapped.
    let cache = unsafe { &*place };
    Some((cache.serial.load(Ordering::Relaxed) != 0).then(|| look(cache)))
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
    slab_of_address(address).map(|(cache, _)| cache)
}

/// The cache that owns an address, and the first page of its slab, if it is an address in a slab.
#[inline]
pub(crate) fn slab_of_address(address: usize) -> Option<(&'static RawCache, PageIndex)> {
    let page = MEMMAP.page_of(address)?;
    let class = MEMMAP.class_of(page);
    if class.kind() != PageKind::Slab {
        return None;
    }
    let first = PageIndex(page.0 - class.back());
    let owner = MEMMAP.head(first).owner();
    // SAFETY: the owner field of a slab page's head is the address of its cache, which is never unmapped.
    Some((unsafe { &*(owner as *const RawCache) }, first))
}

/// Takes the registry lock and those of all caches, for fork.
pub(crate) fn lock_all() {
    REGISTRY.lock_raw();
}

/// Locks, or unlocks, the state of every cache; the registry lock is held.
pub(crate) fn for_each_locked(lock: bool) {
    // SAFETY: the caller (fork) holds the registry lock by lock_raw, so the table does not change; only a
    // shared look at it is taken here, through a pointer, since no guard exists.
    let registry = unsafe { &*REGISTRY.data_ptr() };
    for &cache in &registry.caches[..registry.count] {
        // SAFETY: as in `for_each`.
        let state = unsafe { (*cache).state };
        if lock {
            state.lock_all();
        } else {
            // SAFETY: fork called this with `lock` true before, on the same registry.
            unsafe { state.unlock_all() };
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
