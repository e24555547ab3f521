//! The look-up of addresses: finds the allocation at an address, and its owner.
//!
//! `kfree`, `free`, `krealloc`, `realloc`, `ksize`, `malloc_usable_size` and their reports all call
//! [`identify`]. It returns an [`Owner`] if an allocation starts at the address, and otherwise a
//! [`Misuse`], which each face reports in its own words.
//!
//! The object map is read first, because it holds exactly the live objects of tracked caches. The
//! class word of the page decides all other cases.
#![allow(unsafe_code, reason = "frees what an address leads to")]

use core::ptr::NonNull;

use super::beside_fork;
use super::kmalloc;
use super::large::{self, LargeObject};
use super::malloc;
use super::malloc::classes::{Code, size_of_class, size_of_entry};
use super::object_map::OBJECTS;
#[cfg(feature = "os")]
use super::profile;
use crate::base::report;
use crate::base::units::{PAGE_SIZE, PageIndex};
use crate::cache::registry;
#[cfg(feature = "os")]
use crate::engine::guard;
use crate::engine::history::slob::{self, ObjectState};
use crate::engine::{self, Object, RawCache};
use crate::pages::direct;
use crate::pages::memmap::{MEMMAP, PageKind};

/// The allocation that starts at an address.
pub(crate) enum Owner {
    /// A live object of a tracked cache.
    Tracked(Code),
    /// An object of another cache, live or free; most such caches cannot distinguish them.
    Cache(&'static RawCache),
    /// An object of a class of kmalloc, on this page, which objects of all sizes share, and of this
    /// many bytes.
    Sized(&'static RawCache, PageIndex, usize),
    /// A run of pages.
    Large(LargeObject),
    /// A mapping of this many bytes.
    Direct(usize),
    /// A block of this many bytes beside the zone: guarded, or allocated beside a fork.
    Apart(usize),
}

/// The reason why no allocation starts at an address.
pub(crate) enum Misuse {
    /// An object of this cache starts there, which knows that it is free.
    Free(&'static RawCache),
    /// The same for an object of a class of kmalloc on a page of all sizes.
    FreeSized(&'static RawCache),
    /// The address lies in a slab of this cache, and no object starts there.
    NoObject(&'static RawCache),
    /// The address lies in this page of the zone, and no object starts there.
    NotAllocated(PageIndex),
    /// The address lies neither in the zone nor at the start of a mapping.
    Foreign,
}

impl Misuse {
    /// Reports that `function` was called with `address`.
    #[cold]
    #[place(cold)]
    #[inline(never)]
    pub(crate) fn report(&self, function: &str, address: usize) {
        match self {
            Misuse::Free(cache) => engine::report_freed_twice(function, address, cache),
            Misuse::NoObject(cache) => report::invalid_pointer(function, address, cache.name()),
            Misuse::FreeSized(_) => report::not_allocated(function, address),
            Misuse::NotAllocated(page) => match large::around(*page) {
                Some(start) => report::inside_large(function, address, start),
                None => report::not_allocated(function, address),
            },
            #[cfg(feature = "os")]
            Misuse::Foreign if guard::report_stray(function, address) => {}
            Misuse::Foreign => direct::report_stray(function, address),
        }
    }
}

impl Owner {
    /// Frees the allocation, which starts at `ptr`, for `function`.
    ///
    /// # Safety
    /// [`identify`] returned this for `ptr`, and the caller gives the allocation up.
    pub(crate) unsafe fn free(self, function: &str, ptr: *mut u8) {
        match self {
            Owner::Large(large) => {
                note_free(ptr);
                large.free();
            }
            Owner::Direct(_) => {
                note_free(ptr);
                if let Some(at) = NonNull::new(ptr) {
                    // SAFETY: the caller gives the mapping up. The table of mappings has its size.
                    unsafe { direct::unmap(at) };
                }
            }
            Owner::Apart(_) => free_apart(function, ptr),
            // SAFETY: the caller keeps the same contract.
            Owner::Tracked(_) | Owner::Cache(_) | Owner::Sized(..) => unsafe {
                self.free_object(function, ptr as usize)
            },
        }
    }

    /// Frees an object of a cache. `free` handles most objects of tracked caches without this call.
    ///
    /// # Safety
    /// As for [`free`](Self::free).
    #[inline(never)]
    #[place(cold)]
    unsafe fn free_object(self, function: &str, address: usize) {
        let (cache, sized) = match self {
            Owner::Tracked(code) => {
                let cache = malloc::cache_of(code);
                if take(address) == 0 {
                    // Another thread has freed it since the look-up.
                    return report::freed_twice(function, address, cache.name());
                }
                (cache, None)
            }
            Owner::Cache(cache) => {
                #[cfg(feature = "os")]
                if profile::ever_on() {
                    profile::freed_object(address);
                }
                (cache, None)
            }
            Owner::Sized(cache, page, size) => (cache, Some((page, size))),
            Owner::Large(_) | Owner::Direct(_) | Owner::Apart(_) => return,
        };
        // SAFETY: `identify` found an object of this cache, and the caller gives it up.
        let object = unsafe { Object::new(cache, address) };
        match sized {
            Some((page, size)) => engine::free_sized(object, page, size),
            None => engine::free(object),
        }
    }

    /// Whether an object of a cache has room for `size` bytes, even if it was allocated for less.
    pub(crate) fn grows_to(&self, size: usize) -> bool {
        matches!(self, Owner::Cache(cache) if size <= cache.object_size())
    }

    /// Tells the cache of an object that it is used for `size` bytes from now on.
    pub(crate) fn note_size(&self, address: usize, size: usize) {
        if let Owner::Cache(cache) = self {
            engine::note_size(cache, address, size);
        }
    }

    /// Returns the usable bytes of the allocation, which starts at `address`.
    #[inline(never)]
    pub(crate) fn bytes(&self, address: usize) -> usize {
        match self {
            Owner::Tracked(code) => size_of_class(code.class()),
            Owner::Cache(cache) => engine::bytes_of(cache, address),
            Owner::Sized(cache, _, size) => cache.engine.round_up(*size, cache.object_size()),
            Owner::Large(large) => large.bytes(),
            Owner::Direct(bytes) | Owner::Apart(bytes) => *bytes,
        }
    }
}

/// Returns the bytes of the block beside the zone that starts at `address`.
fn bytes_apart(address: usize) -> Option<usize> {
    #[cfg(feature = "os")]
    if guard::is_on()
        && let Some(bytes) = guard::size_of(address)
    {
        return Some(bytes);
    }
    beside_fork::size_of(address)
}

/// Frees the block beside the zone that starts at `ptr`.
#[cold]
#[inline(never)]
#[place(background)]
fn free_apart(function: &str, ptr: *mut u8) {
    #[cfg(feature = "os")]
    if guard::contains(ptr as usize) {
        note_free(ptr);
        if !guard::free(ptr as usize) {
            // Another thread has freed it since the look-up.
            guard::report_stray(function, ptr as usize);
        }
        return;
    }
    let _ = function;
    beside_fork::free(ptr as usize);
}

/// Tells the profile of a free of a large object, which may be a sample.
#[inline]
fn note_free(ptr: *mut u8) {
    #[cfg(feature = "os")]
    if profile::ever_on() {
        profile::freed(ptr as usize);
    }
    #[cfg(not(feature = "os"))]
    let _ = ptr;
}

/// Returns the entry of the live object of a tracked cache that starts at `address`; 0 if there is
/// none.
fn entry_at(address: usize) -> u8 {
    match OBJECTS.code_at(address) {
        #[cfg(feature = "os")]
        profile::SAMPLED => profile::entry_of_sample(address),
        entry => entry,
    }
}

/// Returns whether a live object of a tracked cache starts at `address`.
#[place(cold)]
pub(crate) fn is_in_use(address: usize) -> bool {
    entry_at(address) != 0
}

/// Removes the live object of a tracked cache that starts at `address` from the map. Returns its
/// entry; 0 if there is none.
#[inline]
pub(crate) fn take(address: usize) -> u8 {
    match OBJECTS.take(address) {
        #[cfg(feature = "os")]
        profile::SAMPLED => {
            profile::freed(address);
            profile::entry_of_sample(address)
        }
        entry => entry,
    }
}

/// Returns the bytes of the live object of a tracked cache that starts at `address`; 0 if there is
/// none, or if it is a sample of a profile. Then the caller uses [`identify`].
#[inline]
pub(crate) fn tracked_bytes(address: usize) -> usize {
    size_of_entry(OBJECTS.code_at(address))
}

/// Returns the allocation that starts at `address`, or the reason why none does.
#[cold]
#[inline(never)]
pub(crate) fn identify(address: usize) -> Result<Owner, Misuse> {
    if let Some(code) = Code::from_map(entry_at(address)) {
        return Ok(Owner::Tracked(code));
    }
    let Some(page) = MEMMAP.page_of(address) else {
        if let Some(bytes) = direct::size_of_mapping(address) {
            return Ok(Owner::Direct(bytes));
        }
        return bytes_apart(address).map(Owner::Apart).ok_or(Misuse::Foreign);
    };
    match MEMMAP.class_of(page).kind() {
        PageKind::LargeHead if address.is_multiple_of(PAGE_SIZE) => Ok(Owner::Large(LargeObject::of_head(page))),
        _ => identify_in_slab(address, page),
    }
}

/// [`identify`] in a page that is not the first of a large object.
#[inline(never)]
#[place(cold)]
fn identify_in_slab(address: usize, page: PageIndex) -> Result<Owner, Misuse> {
    if let Some(cache) = registry::cache_of_address(address) {
        return match cache.slabs.locate(address) {
            Ok(_) if engine::is_known_free(cache, address) => Err(Misuse::Free(cache)),
            Ok(_) if !cache.policy.tracked => Ok(Owner::Cache(cache)),
            // The map has no entry for it.
            Ok(_) => Err(Misuse::Free(cache)),
            Err(_) => Err(Misuse::NoObject(cache)),
        };
    }
    let (size, live) = match MEMMAP.class_of(page).kind() {
        PageKind::Slob => match slob::object_state(address) {
            ObjectState::Live(size) => (size, true),
            ObjectState::Free(size) => (size, false),
            ObjectState::None => return Err(Misuse::NotAllocated(page)),
        },
        _ => return Err(Misuse::NotAllocated(page)),
    };
    match kmalloc::class_cache(size) {
        Some(cache) if live => Ok(Owner::Sized(cache, page, size)),
        Some(cache) => Err(Misuse::FreeSized(cache)),
        None => Err(Misuse::NotAllocated(page)),
    }
}

/// Returns the bytes of the live allocation that starts at `address`, without taking a lock: for
/// threads beside a fork. `None` where no allocation starts, and for objects of other engines,
/// whose size takes a lock to find.
#[cold]
#[place(background)]
pub(crate) fn bytes_without_locks(address: usize) -> Option<usize> {
    if let Some(code) = Code::from_map(entry_at(address)) {
        return Some(size_of_class(code.class()));
    }
    match MEMMAP.page_of(address) {
        None => bytes_apart(address).or_else(|| direct::size_without_lock(address)),
        Some(page) => match MEMMAP.class_of(page).kind() {
            PageKind::LargeHead => Some(large::bytes_of(page)),
            PageKind::Slab => registry::cache_of_address(address).map(RawCache::object_size),
            _ => None,
        },
    }
}
