//! The owner oracle: many threads, and a separate record of the owner and contents of each object.
//!
//! An owner writes its token over the whole object. The thread that frees the object checks every
//! byte first. So a second owner, a free link written into a live object, or a page freed too early
//! is found there.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::mpsc;
use std::time::Instant;

use ashlar::{CacheArgs, KmemCache};

use super::{Rng, check, cpus, fill, pin};

const THREADS: usize = 64;
/// Most objects that one thread holds.
const HELD: usize = 120;
const SLOTS: usize = 512;
const CACHE_SIZES: [usize; 4] = [24, 100, 512, 5000];

/// The record of one object.
struct Held {
    at: NonNull<u8>,
    size: usize,
    token: u64,
    /// Index of its cache; `None` for kmalloc.
    cache: Option<usize>,
}
// SAFETY: a record is the ownership of its object, and moves to another thread as a whole.
unsafe impl Send for Held {}

struct Shared {
    caches: Vec<KmemCache>,
    slots: Vec<AtomicPtr<Held>>,
    tokens: AtomicU64,
    frees: AtomicU64,
    stop: AtomicBool,
    cpus: Vec<usize>,
}

fn random_size(rng: &mut Rng) -> usize {
    match rng.below(1000) {
        0..700 => 1 + rng.below(300),
        700..930 => 1 + rng.below(4000),
        930..990 => 1 + rng.below(20_000),
        990..999 => 1 + rng.below(300_000),
        _ => 1 + rng.below(3 << 20),
    }
}

impl Shared {
    fn alloc(&self, rng: &mut Rng) -> Held {
        let token = self.tokens.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let cache = rng.below(2 * self.caches.len());
        let (at, size, cache) = match self.caches.get(cache) {
            Some(of) => (of.alloc(), CACHE_SIZES[cache], Some(cache)),
            None => {
                let size = random_size(rng);
                (NonNull::new(ashlar::kmalloc(size)), size, None)
            }
        };
        let held = Held { at: at.expect("memory"), size, token, cache };
        // SAFETY: `size` fresh bytes.
        unsafe { fill(held.at.as_ptr(), size, token) };
        held
    }

    /// Checks every byte, without freeing the object.
    fn look(held: &Held) {
        // SAFETY: the object is live as long as its record exists.
        unsafe { check(held.at.as_ptr(), held.size, held.size, held.token) };
    }

    fn free(&self, held: Held, rng: &mut Rng) {
        Self::look(&held);
        self.frees.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the record was the only one, and is dropped after this.
        unsafe {
            match held.cache {
                Some(cache) => self.caches[cache].free(held.at),
                None if rng.below(3) == 0 => ashlar::kfree_sized(held.at.as_ptr(), held.size),
                None => ashlar::kfree(held.at.as_ptr()),
            }
        }
    }

    fn free_all(&self, held: &mut Vec<Held>, rng: &mut Rng) {
        if self.caches[0].engine() == ashlar::Engine::Slob {
            // Only their cache can free SLOB's objects, because these do not record their size.
            held.extract_if(.., |h| h.cache.is_some()).for_each(|h| self.free(h, rng));
        }
        if rng.below(2) == 0 {
            held.iter().for_each(Self::look);
            let objects: Vec<*mut u8> = held.drain(..).map(|h| h.at.as_ptr()).collect();
            // SAFETY: the records were the only ones, and are dropped.
            unsafe { ashlar::kfree_bulk(&objects) };
        } else {
            held.drain(..).for_each(|h| self.free(h, rng));
        }
    }

    /// Puts an object into a shared slot and takes the one that was there.
    fn swap(&self, held: Option<Held>, rng: &mut Rng) -> Option<Held> {
        let new = held.map_or(core::ptr::null_mut(), |h| Box::into_raw(Box::new(h)));
        let old = self.slots[rng.below(SLOTS)].swap(new, Ordering::AcqRel);
        // SAFETY: slots hold boxes that threads passed on; the swap makes this thread the only
        // owner.
        (!old.is_null()).then(|| *unsafe { Box::from_raw(old) })
    }

    /// Runs one thread, and returns the objects that it still holds at its end.
    fn live(&self, mut held: Vec<Held>, seed: u64) -> Vec<Held> {
        let mut rng = Rng::new(seed);
        let life = 2000 + rng.below(20_000);
        for _ in 0..life {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            match rng.below(100) {
                0..45 if held.len() < HELD => held.push(self.alloc(&mut rng)),
                0..80 if !held.is_empty() => {
                    let victim = held.swap_remove(rng.below(held.len()));
                    self.free(victim, &mut rng);
                }
                80..94 if !held.is_empty() => {
                    let mine = held.swap_remove(rng.below(held.len()));
                    if let Some(theirs) = self.swap(Some(mine), &mut rng) {
                        self.free(theirs, &mut rng);
                    }
                }
                94..98 if !held.is_empty() => {
                    // Writes a new token in place, which must still be there at the free.
                    let index = rng.below(held.len());
                    let object = &mut held[index];
                    Self::look(object);
                    object.token = object.token.rotate_left(13) ^ seed;
                    // SAFETY: this thread owns the object.
                    unsafe { fill(object.at.as_ptr(), object.size, object.token) };
                }
                98 => {
                    pin(self.cpus[rng.below(self.cpus.len())]);
                }
                _ if rng.below(40) == 0 => self.free_all(&mut held, &mut rng),
                _ => {}
            }
        }
        held
    }

    /// Drains sheaves and returns memory all the time.
    fn drain(&self) {
        let mut rng = Rng::new(99);
        while !self.stop.load(Ordering::Relaxed) {
            match rng.below(4) {
                0 => {
                    ashlar::reap();
                }
                n => {
                    self.caches[n].shrink();
                }
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// Creates and destroys caches. An empty one can always be destroyed, whatever the other
    /// threads do.
    fn churn(&self) {
        let mut rng = Rng::new(7);
        while !self.stop.load(Ordering::Relaxed) {
            let size = 1 + rng.below(2000);
            let cache = KmemCache::create("stress-churn", size, &CacheArgs::default()).expect("a cache");
            let mut objects = vec![core::ptr::null_mut(); rng.below(500)];
            assert!(cache.alloc_bulk(&mut objects));
            // SAFETY: fresh objects of `size` bytes, each freed once.
            unsafe {
                objects.iter().for_each(|&at| fill(at, size, 1));
                objects.iter().for_each(|&at| check(at, size, size, 1));
                cache.free_bulk(&objects);
            }
            cache.destroy().map_err(|(_, e)| e).expect("an empty cache is destroyed");
        }
    }
}

/// Runs the stress for `seconds`, and returns the number of objects freed.
pub(crate) fn run(seconds: u64) -> u64 {
    let shared = Shared {
        caches: CACHE_SIZES.map(|size| KmemCache::create("stress", size, &CacheArgs::default()).expect("cache")).into(),
        slots: (0..SLOTS).map(|_| AtomicPtr::default()).collect(),
        tokens: AtomicU64::new(1),
        frees: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        cpus: cpus(),
    };
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut rng = Rng::new(seconds);
    std::thread::scope(|scope| {
        let shared = &shared;
        scope.spawn(|| shared.drain());
        scope.spawn(|| shared.churn());
        let (died, deaths) = mpsc::channel();
        let bear = |held, seed| {
            let died = died.clone();
            scope.spawn(move || died.send(shared.live(held, seed)).expect("the main thread waits"));
        };
        (0..THREADS).for_each(|thread| bear(Vec::new(), thread as u64));
        let mut alive = THREADS;
        let mut heirs = Vec::new();
        while alive > 0 {
            heirs.append(&mut deaths.recv().expect("threads are alive"));
            alive -= 1;
            if Instant::now() < end {
                // A new thread inherits and frees objects of the ended threads; now and then it
                // inherits all.
                let share = heirs.len().min(HELD / 2);
                bear(heirs.split_off(heirs.len() - share), rng.next());
                alive += 1;
            } else {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        heirs.into_iter().for_each(|held| shared.free(held, &mut rng));
        for slot in &shared.slots {
            let left = slot.swap(core::ptr::null_mut(), Ordering::AcqRel);
            if !left.is_null() {
                // SAFETY: the slot held a box, and all threads have ended.
                shared.free(*unsafe { Box::from_raw(left) }, &mut rng);
            }
        }
    });
    for cache in shared.caches {
        assert_eq!(cache.info().usage.live, 0, "objects were lost");
        cache.destroy().map_err(|(_, e)| e).expect("an empty cache is destroyed");
    }
    // No other code allocates in this process.
    ashlar::for_each_cache(|cache| assert_eq!(cache.usage.live, 0, "objects of {} were lost", cache.name()));
    ashlar::reap();
    ashlar::for_each_cache(|cache| assert_eq!(cache.usage.slabs, 0, "{} keeps slabs", cache.name()));
    shared.frees.into_inner()
}
