//! The registry: all caches of the process, and the memory of destroyed ones.
//!
//! Lock: the *registry lock* (the kernel's slab_mutex), before all others. Creation, destruction
//! and walks over all caches hold it. Allocation paths only try it, when the zone is about to grow.
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
    /// The state from which keys of free links are derived; 0 before the first.
    key: u64,
    /// The list of names of merged caches, the youngest first, and the list of free records.
    aliases: *mut Alias,
    free_aliases: *mut Alias,
}

// SAFETY: the entries point to caches in metadata memory, which any thread may use. The table
// itself is used only under the lock.
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
    /// Returns the existing caches, in order of their entries.
    fn live(&self) -> impl DoubleEndedIterator<Item = &'static RawCache> {
        let caches = self.caches[..self.count].iter();
        // SAFETY: entries below `count` point to caches that are never unmapped.
        caches.map(|&cache| unsafe { &*cache }).filter(|cache| cache.serial.load(Ordering::Relaxed) != 0)
    }

    /// Makes `new` a further name of the youngest cache that it can be merged with. Returns `None`
    /// if there is none, or without memory; then `new` becomes a cache of its own.
    #[place(cold)]
    #[inline(never)]
    fn merge(&mut self, new: &CacheSpec<'_>) -> Option<(&'static RawCache, &'static Alias)> {
        let alike = self.live().filter(|cache| merge::fits(new, cache));
        let cache = alike.max_by_key(|cache| cache.serial.load(Ordering::Relaxed))?;
        let place = if self.free_aliases.is_null() {
            META.alloc(size_of::<Alias>(), align_of::<Alias>())?.as_ptr().cast::<Alias>()
        } else {
            let place = self.free_aliases;
            // SAFETY: records on the list were initialised, and are never unmapped.
            self.free_aliases = unsafe { (*place).next.load(Ordering::Relaxed) };
            place
        };
        // SAFETY: the memory holds a record to which no reference exists.
        let alias = unsafe {
            place.write(Alias::new(new.name, cache, new.geometry.object_size, self.aliases));
            &*place
        };
        self.aliases = place;
        cache.refcount.fetch_add(1, Ordering::Relaxed);
        cache.slabs.raise_object_size(new.geometry.object_size);
        Some((cache, alias))
    }

    /// Returns the names of merged caches.
    fn aliases(&self) -> impl Iterator<Item = &'static Alias> {
        // SAFETY: the pointer is null or points to a record. Records are never unmapped, and are
        // rewritten only while they are on no list.
        let record = |at: *mut Alias| unsafe { at.as_ref() };
        core::iter::successors(record(self.aliases), move |alias| record(alias.next.load(Ordering::Relaxed)))
    }

    /// Removes a name from the list.
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

/// Calls `look` on the `index`-th alias, under the registry lock. Returns `None` past the end.
pub(super) fn nth_alias<R>(index: usize, look: impl FnOnce(&'static Alias) -> R) -> Option<R> {
    REGISTRY.lock().aliases().nth(index).map(look)
}

/// Registers a new cache, or merges it into an existing one.
pub(crate) fn register(new: &CacheSpec<'_>) -> Result<(&'static RawCache, Option<&'static Alias>), CreateError> {
    let mut registry = REGISTRY.lock();
    // Another thread created it first, or a thread of the parent did before a fork.
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
    // The entry of a destroyed cache is reused, with its empty node entries.
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
        // SAFETY: as above. No thread uses a destroyed cache.
        Some(place) => (Some(place), unsafe { (*place).state }),
        None => {
            let place = META.alloc(size_of::<RawCache>(), align_of::<RawCache>().max(64));
            (place.map(|p| p.as_ptr().cast()), engine::EMPTY_STATE)
        }
    };
    // Reserved slots stay reserved.
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
    // If the engine could not be opened, the entry is stored as that of a destroyed cache, so that
    // the next attempt reuses the memory.
    let serial = if opened.is_ok() { registry.next_serial } else { 0 };
    let secret = secret(&mut registry.key, serial);
    // SAFETY: the place is unused memory of a cache's size and alignment, and is written before any
    // thread can see it.
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
    #[cfg(feature = "os")]
    super::sampling::adopt(cache);
    Ok((cache, None))
}

/// Returns a key for the free links of one cache: the random key of the process, mixed with the
/// number of the cache by the finaliser of Steele's SplitMix64.
fn secret(key: &mut u64, serial: u32) -> u64 {
    if *key == 0 {
        #[cfg(feature = "os")]
        let random = crate::base::os::random_u64();
        #[cfg(not(feature = "os"))]
        let random = crate::base::sync::section::random_or((&raw const REGISTRY).addr());
        *key = random | 1;
    }
    let mut z = key.wrapping_add(u64::from(serial).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    // The upper half must not be zero, because otherwise small corrupt links would look valid.
    (z ^ (z >> 31)) | 1 << 63
}

/// Drops a handle of a cache, and its name if that is an alias. The last handle removes the cache,
/// if `empty` returns that it holds no slabs and no sheaves. `empty` runs under the registry lock,
/// so that no reaper holds a sheaf of the cache meanwhile. Returns false, and drops nothing, if the
/// cache is not empty.
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
        #[cfg(feature = "os")]
        super::sampling::forget(cache);
        cache.serial.store(0, Ordering::Relaxed);
    } else {
        cache.refcount.fetch_sub(1, Ordering::Relaxed);
    }
    true
}

/// Calls `look` on the cache at `index` of the table, under the registry lock. Returns `None` past
/// the end, `Some(None)` for a free entry.
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

/// Calls `each` for every cache that has this name, or whose name begins as a `name` that ends in
/// `*`, under the registry lock. Merged names count. Returns the number of caches.
#[cfg(feature = "os")]
#[place(background)]
pub(crate) fn for_each_named(name: &str, mut each: impl FnMut(&'static RawCache)) -> usize {
    let fits = |of: &str| name.strip_suffix('*').map_or(of == name, |start| of.starts_with(start));
    let registry = REGISTRY.lock();
    let mut found = 0;
    for cache in registry.live() {
        let merged = || registry.aliases().any(|alias| core::ptr::eq(alias.cache, cache) && fits(alias.name()));
        if fits(cache.name()) || merged() {
            found += 1;
            each(cache);
        }
    }
    found
}

/// Calls `look` under the lock. The reaper and a destroying thread hold it while they empty a
/// cache, because the objects that they carry would be counted as live.
pub(crate) fn with_lock<R>(look: impl FnOnce() -> R) -> R {
    let _lock = REGISTRY.lock();
    look()
}

/// As [`for_each`], if no thread holds the lock; otherwise returns false and does nothing. For
/// allocation paths, which may run in a thread that holds it.
pub(crate) fn try_for_each(mut each: impl FnMut(&'static RawCache)) -> bool {
    fn one_for_all(each: &mut dyn FnMut(&'static RawCache)) -> bool {
        let Some(registry) = REGISTRY.try_lock() else { return false };
        registry.live().for_each(each);
        true
    }
    one_for_all(&mut each)
}

/// Calls `each` for every cache, under the registry lock, which is free in between: under a kernel,
/// interrupts are off while it is held. Returns false, and stops, if another thread holds the lock
/// and `wait` is false.
#[cfg(not(feature = "os"))]
pub(crate) fn for_each_alone(wait: bool, mut each: impl FnMut(&'static RawCache)) -> bool {
    for index in 0.. {
        let registry = if wait { Some(REGISTRY.lock()) } else { REGISTRY.try_lock() };
        let Some(registry) = registry else { return false };
        let Some(&place) = registry.caches[..registry.count].get(index) else { break };
        // SAFETY: entries below `count` point to caches that are never unmapped.
        let cache = unsafe { &*place };
        if cache.serial.load(Ordering::Relaxed) != 0 {
            each(cache);
        }
    }
    true
}

/// Returns the cache that owns an address, if it lies in a slab.
pub(crate) fn cache_of_address(address: usize) -> Option<&'static RawCache> {
    slab_of_address(address).map(|(cache, _)| cache)
}

/// Returns the cache that owns an address and the first page of its slab, if it lies in a slab.
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

/// Where a reader outside of the process finds the table, and the records of aliases.
#[cfg(feature = "os")]
pub(crate) const LAYOUT: (crate::base::window::RegistryAt, crate::base::window::AliasAt) = {
    const VALUE: usize = SpinLock::<Registry>::VALUE;
    let table = crate::base::window::RegistryAt {
        caches: (VALUE + core::mem::offset_of!(Registry, caches)) as u32,
        count: (VALUE + core::mem::offset_of!(Registry, count)) as u32,
        aliases: (VALUE + core::mem::offset_of!(Registry, aliases)) as u32,
    };
    (table, Alias::LAYOUT)
};

/// Returns the address of the registry.
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn address() -> usize {
    (&raw const REGISTRY).addr()
}

/// Returns the registry lock, for a fork.
pub(crate) fn lock_word() -> &'static LockWord {
    REGISTRY.word()
}

/// Visits the locks of every cache, for a fork, which holds the registry lock.
pub(crate) fn for_each_lock(visit: Visit<'_>) {
    // SAFETY: the calling thread holds the registry lock for a fork, so no other thread changes the
    // table. If a signal handler forks inside this thread's own change, the table is still valid,
    // because `count` is raised after the entry is stored.
    let registry = unsafe { &*REGISTRY.data_ptr() };
    for &cache in &registry.caches[..registry.count] {
        // SAFETY: as in `live`.
        unsafe { (*cache).state }.for_each_lock(visit);
    }
}
