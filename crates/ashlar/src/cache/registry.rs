//! The registry: every cache of the process, and the memory of destroyed ones.
//!
//! Lock: the *registry lock* (the kernel's slab_mutex), before all others. Creation, destruction
//! and walks over all caches hold it; allocation paths only ever try it, when the zone is about to
//! grow.
#![allow(unsafe_code, reason = "caches live in metadata memory")]

use super::alias::Alias;
use super::merge;
use crate::base::error::CreateError;
use crate::base::sync::{LockWord, Ordering, SpinLock, Visit};
use crate::base::units::PageIndex;
use crate::engine::{self, CacheSpec, RawCache};
use crate::pages::memmap::{MEMMAP, PageKind};
use crate::pages::meta::META;
use crate::percpu::area::{MAX_CACHES, PERCPU};

struct Registry {
    caches: [*mut RawCache; MAX_CACHES],
    count: usize,
    next_serial: u32,
    /// What the keys of free links are made from; 0 before the first.
    key: u64,
    /// The names of merged caches, the youngest first, and the records that were given up.
    aliases: *mut Alias,
    free_aliases: *mut Alias,
}

// SAFETY: the entries point to caches in metadata memory, which any thread may use; the table
// itself is reached under the lock only.
unsafe impl Send for Registry {}

#[place(large_data)]
static REGISTRY: SpinLock<Registry> = SpinLock::new(Registry {
    caches: [core::ptr::null_mut(); MAX_CACHES],
    count: 0,
    next_serial: 1,
    key: 0,
    aliases: core::ptr::null_mut(),
    free_aliases: core::ptr::null_mut(),
});

impl Registry {
    /// The caches that exist, in order of their entries.
    fn live(&self) -> impl DoubleEndedIterator<Item = &'static RawCache> {
        let caches = self.caches[..self.count].iter();
        // SAFETY: entries below `count` point to caches that are never unmapped.
        caches.map(|&cache| unsafe { &*cache }).filter(|cache| cache.serial.load(Ordering::Relaxed) != 0)
    }

    /// Makes `new` one more name of a cache that it can be merged with, of several the youngest.
    /// `None` without such, and without memory: then it becomes a cache of its own.
    #[place(cold)]
    #[inline(never)]
    fn merge(&mut self, new: &CacheSpec<'_>) -> Option<(&'static RawCache, &'static Alias)> {
        let alike = self.live().filter(|cache| merge::fits(new, cache));
        let cache = alike.max_by_key(|cache| cache.serial.load(Ordering::Relaxed))?;
        let place = if self.free_aliases.is_null() {
            META.alloc(size_of::<Alias>(), align_of::<Alias>())?.as_ptr().cast::<Alias>()
        } else {
            let place = self.free_aliases;
            // SAFETY: records of the list were written when they were made, and are never unmapped.
            self.free_aliases = unsafe { (*place).next.load(Ordering::Relaxed) };
            place
        };
        // SAFETY: memory for a record that nothing refers to.
        let alias = unsafe {
            place.write(Alias::new(new.name, cache, new.geometry.object_size, self.aliases));
            &*place
        };
        self.aliases = place;
        cache.refcount.fetch_add(1, Ordering::Relaxed);
        cache.slabs.raise_object_size(new.geometry.object_size);
        Some((cache, alias))
    }

    /// The names of merged caches.
    fn aliases(&self) -> impl Iterator<Item = &'static Alias> {
        // SAFETY: null, or a record: those are never unmapped, and are written again only when they
        // are on no list.
        let record = |at: *mut Alias| unsafe { at.as_ref() };
        core::iter::successors(record(self.aliases), move |alias| record(alias.next.load(Ordering::Relaxed)))
    }

    /// Takes a name off the list.
    fn forget(&mut self, alias: &'static Alias) {
        let after = alias.next.load(Ordering::Relaxed);
        match self.aliases().take_while(|other| !core::ptr::eq(*other, alias)).last() {
            Some(before) => before.next.store(after, Ordering::Relaxed),
            None => self.aliases = after,
        }
        alias.next.store(self.free_aliases, Ordering::Relaxed);
        self.free_aliases = core::ptr::from_ref(alias).cast_mut();
    }
}

/// What `look` says of the name in place `index` of the list, under the registry lock: `None`
/// behind the end.
pub(super) fn nth_alias<R>(index: usize, look: impl FnOnce(&'static Alias) -> R) -> Option<R> {
    REGISTRY.lock().aliases().nth(index).map(look)
}

/// Enters a new cache, or makes it a name of one that it is merged with.
pub(crate) fn register(new: &CacheSpec<'_>) -> Result<(&'static RawCache, Option<&'static Alias>), CreateError> {
    let mut registry = REGISTRY.lock();
    // Another thread was quicker, or the parent of a fork in a thread that is gone here.
    if let Some(slot) = new.slot
        && let Some(cache) = registry.live().find(|cache| cache.slot == slot)
    {
        return Ok((cache, None));
    }
    if new.merge.mergeable
        && let Some((cache, alias)) = registry.merge(new)
    {
        return Ok((cache, Some(alias)));
    }
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
        // SAFETY: as above; no thread uses a destroyed cache.
        Some(place) => (Some(place), unsafe { (*place).state }),
        None => {
            let place = META.alloc(size_of::<RawCache>(), align_of::<RawCache>().max(64));
            (place.map(|p| p.as_ptr().cast()), engine::EMPTY_STATE)
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
    let opened = engine::open(&mut state, new, &mut geometry);
    // An entry whose engine could not be opened is entered all the same, as that of a destroyed
    // cache: the next attempt finds what this one made.
    let serial = if opened.is_ok() { registry.next_serial } else { 0 };
    let secret = secret(&mut registry.key, serial);
    // SAFETY: the place is unused memory of a cache's size and alignment; written before anyone can
    // see it.
    let cache = unsafe {
        place.write(RawCache::new(new, geometry, state, slot, secret, serial));
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
    Ok((cache, None))
}

/// A key for the free links of one cache: the process's random key, mixed with the cache's number
/// (the finaliser of Steele's SplitMix64).
fn secret(key: &mut u64, serial: u32) -> u64 {
    if *key == 0 {
        #[cfg(feature = "os")]
        let random = crate::base::os::random_u64();
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

/// Gives up a handle of a cache, and its name if that is an alias. The last one removes the cache,
/// if `empty` finds that it holds no slabs and no sheaves: that runs under the registry lock, so
/// that no reaper has a sheaf of the cache in hand meanwhile. False, and nothing given up, if it
/// does hold some.
pub(crate) fn unregister_if(
    cache: &'static RawCache,
    alias: Option<&'static Alias>,
    empty: impl FnOnce() -> bool,
) -> bool {
    let mut registry = REGISTRY.lock();
    let last = cache.refcount.load(Ordering::Relaxed) == 1;
    if last && !empty() {
        return false;
    }
    if let Some(alias) = alias {
        registry.forget(alias);
    }
    if last {
        engine::close(cache);
        PERCPU.release_slot(cache.slot);
        cache.serial.store(0, Ordering::Relaxed);
    } else {
        cache.refcount.fetch_sub(1, Ordering::Relaxed);
    }
    true
}

/// What `look` says of the cache in place `index` of the table, under the registry lock: `None`
/// behind the end, `Some(None)` for a place that is free now.
pub(crate) fn nth<R>(index: usize, look: impl FnOnce(&'static RawCache) -> R) -> Option<Option<R>> {
    let registry = REGISTRY.lock();
    let place = *registry.caches[..registry.count].get(index)?;
    // SAFETY: entries below `count` point to caches that are never unmapped.
    let cache = unsafe { &*place };
    Some((cache.serial.load(Ordering::Relaxed) != 0).then(|| look(cache)))
}

/// Calls `each` for every cache, in order of creation of their entries, under the registry lock.
pub(crate) fn for_each(each: impl FnMut(&'static RawCache)) {
    REGISTRY.lock().live().for_each(each);
}

/// Looks under the lock: the reaper and who destroys a cache hold it while they empty one, and the
/// objects that they have in hand would look like live ones.
pub(crate) fn with_lock<R>(look: impl FnOnce() -> R) -> R {
    let _lock = REGISTRY.lock();
    look()
}

/// As [`for_each`], if no thread holds the lock; false, and nothing done, otherwise. For allocation
/// paths, which may run inside something that holds it.
pub(crate) fn try_for_each(mut each: impl FnMut(&'static RawCache)) -> bool {
    fn one_for_all(each: &mut dyn FnMut(&'static RawCache)) -> bool {
        let Some(registry) = REGISTRY.try_lock() else { return false };
        registry.live().for_each(each);
        true
    }
    one_for_all(&mut each)
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
    // SAFETY: the owner field of a slab page's head is the address of its cache, which is never
    // unmapped.
    Some((unsafe { &*(owner as *const RawCache) }, first))
}

/// The registry lock, for a fork.
pub(crate) fn lock_word() -> &'static LockWord {
    REGISTRY.word()
}

/// Visits the locks of every cache, for a fork, which holds the registry lock.
pub(crate) fn for_each_lock(visit: Visit<'_>) {
    // SAFETY: the calling thread holds the registry lock for a fork, so no other thread changes the
    // table. An operation of its own that a signal handler interrupted may be about to: it raises
    // `count` after the entry is there.
    let registry = unsafe { &*REGISTRY.data_ptr() };
    for &cache in &registry.caches[..registry.count] {
        // SAFETY: as in `live`.
        unsafe { (*cache).state }.for_each_lock(visit);
    }
}
