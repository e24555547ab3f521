//! The owner oracle: a record of the owner and the contents of each object, apart from the
//! allocator.
//!
//! An owner writes its token over the whole object. The thread that frees the object reads all of
//! it first. So a second owner, a free link written into an object in use, or a page that was given
//! back too early is found there.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ashlar::{CacheArgs, KmemCache, malloc};

use crate::kit::random::Rng;

/// Most objects that one thread has.
const MOST: usize = 400;
/// Places where threads leave objects for others.
const PASSED_ON: usize = 64;
/// The sizes of the caches.
const SIZES: [usize; 5] = [24, 100, 512, 1500, 5000];

/// Where an object came from.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Malloc,
    Kmalloc,
    Cache(usize),
}

/// The record of one object.
#[derive(Debug)]
pub(crate) struct Owned {
    at: NonNull<u8>,
    size: usize,
    token: u64,
    origin: Origin,
}

// SAFETY: a record is the ownership of its object, and moves to another thread as a whole.
unsafe impl Send for Owned {}

impl Owned {
    fn write(&self) {
        let (token, rest) = (self.token.to_ne_bytes(), self.size % 8);
        let words = self.at.as_ptr().cast::<[u8; 8]>();
        // SAFETY: the owner has so many bytes there; byte arrays need no alignment.
        unsafe {
            (0..self.size / 8).for_each(|at| words.add(at).write(token));
            words.add(self.size / 8).cast::<u8>().copy_from_nonoverlapping(token.as_ptr(), rest);
        }
    }

    /// Changes the last byte, as a second owner would.
    #[cfg(test)]
    pub(crate) fn overwrite(&self) {
        // SAFETY: the owner has that byte.
        unsafe {
            let last = self.at.as_ptr().add(self.size - 1);
            last.write(!last.read());
        }
    }

    /// Checks that the object holds what its owner wrote.
    fn read(&self) -> Result<(), String> {
        let token = self.token.to_ne_bytes();
        // SAFETY: the owner has so many bytes there, all of which it wrote.
        let bytes = unsafe { core::slice::from_raw_parts(self.at.as_ptr(), self.size) };
        match bytes.chunks(8).position(|chunk| *chunk != token[..chunk.len()]) {
            None => Ok(()),
            Some(at) => Err(format!("word {at} of {self:?} does not hold what its owner wrote")),
        }
    }
}

/// What threads allocate from.
#[derive(Debug)]
pub(crate) struct Heap {
    caches: Vec<KmemCache>,
    passed_on: Vec<Mutex<Option<Owned>>>,
    tokens: AtomicU64,
    allocated: AtomicU64,
    refused: AtomicU64,
    freed: AtomicU64,
}

impl Heap {
    pub(crate) fn new(seed: u64) -> Result<Heap, String> {
        let create = |size: usize| {
            let args = if size == 512 { CacheArgs::DEFAULT.align(64) } else { CacheArgs::DEFAULT };
            KmemCache::create(&format!("soak-{size}"), size, &args).map_err(|error| error.to_string())
        };
        Ok(Heap {
            caches: SIZES.into_iter().map(create).collect::<Result<_, _>>()?,
            passed_on: (0..PASSED_ON).map(|_| Mutex::new(None)).collect(),
            tokens: AtomicU64::new(seed),
            allocated: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            freed: AtomicU64::new(0),
        })
    }

    pub(crate) fn caches(&self) -> &[KmemCache] {
        &self.caches
    }

    /// Returns the allocations that returned an object, those that returned none, and the frees.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [&self.allocated, &self.refused, &self.freed].map(|count| count.load(Ordering::Relaxed))
    }

    /// Returns an object, unless memory is refused.
    pub(crate) fn alloc(&self, random: &mut Rng) -> Option<Owned> {
        let size = match random.below(1000) {
            0..800 => 1 + random.below(400),
            800..960 => 1 + random.below(5000),
            960..998 => 1 + random.below(40_000),
            _ => 1 + random.below(2 << 20),
        };
        let (origin, size, at) = match random.below(10) {
            0..5 => (Origin::Malloc, size, malloc::malloc(size)),
            5..7 => (Origin::Kmalloc, size, ashlar::kmalloc(size)),
            _ => {
                let cache = random.below(self.caches.len());
                let at = self.caches[cache].alloc().map_or(core::ptr::null_mut(), NonNull::as_ptr);
                (Origin::Cache(cache), SIZES[cache], at)
            }
        };
        let count = if at.is_null() { &self.refused } else { &self.allocated };
        count.fetch_add(1, Ordering::Relaxed);
        let token = self.tokens.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let owned = Owned { at: NonNull::new(at)?, size, token, origin };
        owned.write();
        Some(owned)
    }

    /// Frees an object, if it holds what its owner wrote.
    pub(crate) fn free(&self, owned: Owned) -> Result<(), String> {
        owned.read()?;
        self.freed.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the record was the only one, and is dropped after this.
        unsafe {
            match owned.origin {
                Origin::Malloc => malloc::free(owned.at.as_ptr()),
                Origin::Kmalloc if owned.token.is_multiple_of(2) => ashlar::kfree_sized(owned.at.as_ptr(), owned.size),
                Origin::Kmalloc => ashlar::kfree(owned.at.as_ptr()),
                Origin::Cache(cache) => self.caches[cache].free(owned.at),
            }
        }
        Ok(())
    }

    /// Gives an object of malloc another size. It keeps what both sizes have room for.
    fn resize(&self, mut owned: Owned, random: &mut Rng) -> Result<Owned, String> {
        owned.read()?;
        let size = 1 + random.below(3 * owned.size);
        // SAFETY: the record is the only one, and is changed if the object was.
        let at = unsafe { malloc::realloc(owned.at.as_ptr(), size) };
        match NonNull::new(at) {
            None => _ = self.refused.fetch_add(1, Ordering::Relaxed),
            Some(at) => {
                owned = Owned { at, size: size.min(owned.size), ..owned };
                owned.read()?;
                owned.size = size;
                owned.write();
            }
        }
        Ok(owned)
    }

    /// Leaves an object for another thread, and returns what one left there.
    fn pass_on(&self, owned: Option<Owned>, random: &mut Rng) -> Option<Owned> {
        let place = &self.passed_on[random.below(PASSED_ON)];
        core::mem::replace(&mut place.lock().unwrap_or_else(PoisonError::into_inner), owned)
    }

    /// Frees what threads left for others.
    pub(crate) fn free_passed_on(&self) -> Result<(), String> {
        let take = |place: &Mutex<Option<Owned>>| place.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.passed_on.iter().filter_map(take).try_for_each(|owned| self.free(owned))
    }

    /// Runs a thread until `end`. Returns the objects that it has then.
    pub(crate) fn live(&self, mut held: Vec<Owned>, end: Instant, seed: u64) -> Result<Vec<Owned>, String> {
        let mut random = Rng::new(seed);
        while Instant::now() < end {
            for _ in 0..200 {
                match random.below(100) {
                    0..47 if held.len() < MOST => held.extend(self.alloc(&mut random)),
                    0..80 if !held.is_empty() => {
                        let owned = held.swap_remove(random.below(held.len()));
                        self.free(owned)?;
                    }
                    80..92 => {
                        let mine = held.pop();
                        if let Some(theirs) = self.pass_on(mine, &mut random) {
                            self.free(theirs)?;
                        }
                    }
                    92..98 if !held.is_empty() => {
                        let owned = held.swap_remove(random.below(held.len()));
                        let is_of_malloc = matches!(owned.origin, Origin::Malloc);
                        held.push(if is_of_malloc { self.resize(owned, &mut random)? } else { owned });
                    }
                    98 if random.below(20) == 0 => held.drain(..).try_for_each(|owned| self.free(owned))?,
                    _ => std::thread::yield_now(),
                }
            }
        }
        Ok(held)
    }

    pub(crate) fn shrink(&self) {
        self.caches.iter().for_each(|cache| _ = cache.shrink());
    }

    /// Checks that all that was allocated was freed.
    pub(crate) fn end(&self) -> Result<(), String> {
        let [allocated, _, freed] = self.counts();
        if allocated != freed {
            return Err(format!("{allocated} objects were allocated, and {freed} freed"));
        }
        Ok(())
    }
}
