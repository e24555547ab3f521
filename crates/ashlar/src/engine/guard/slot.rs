//! What is known of each page of the pool: its object, and who allocated and freed it.
//!
//! A report may read a slot while another thread changes it, so every field is an atomic. The
//! report may show a mixture then.

use core::fmt;

use crate::base::sync::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::engine::RawCache;
use crate::engine::debug::track::{FRAMES, Track};
use crate::slab::cache::MAX_NAME;
use ashlar_macros::place;

/// The number of objects that the pool has room for (the kernel's `CONFIG_KFENCE_NUM_OBJECTS`).
pub(super) const OBJECTS: usize = 255;
#[place(large_bss)]
pub(super) static SLOTS: [Slot; OBJECTS] = [const { Slot::new() }; OBJECTS];

/// What the page of a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    /// Nothing yet.
    Unused,
    Live,
    Freed,
}

/// A page of the pool.
pub(super) struct Slot {
    state: AtomicU32,
    /// The address and the bytes of the object; those of the last one once it is free.
    start: AtomicUsize,
    bytes: AtomicUsize,
    /// The address of the cache that it is an object of, and its name, which outlives the cache.
    cache: AtomicUsize,
    name: [AtomicU8; MAX_NAME],
    allocated: Recorded,
    freed: Recorded,
}

/// A [`Track`].
struct Recorded {
    frames: [AtomicUsize; FRAMES],
    thread: AtomicU32,
    cpu: AtomicU32,
    at_ms: AtomicU64,
}

#[place(cold)]
impl Recorded {
    const fn new() -> Recorded {
        Recorded {
            frames: [const { AtomicUsize::new(0) }; FRAMES],
            thread: AtomicU32::new(0),
            cpu: AtomicU32::new(0),
            at_ms: AtomicU64::new(0),
        }
    }

    fn set(&self, track: &Track) {
        for (kept, frame) in self.frames.iter().zip(track.frames) {
            kept.store(frame, Ordering::Relaxed);
        }
        self.thread.store(track.thread, Ordering::Relaxed);
        self.cpu.store(track.cpu, Ordering::Relaxed);
        self.at_ms.store(track.at_ms, Ordering::Relaxed);
    }

    fn get(&self) -> Track {
        Track {
            frames: core::array::from_fn(|at| self.frames[at].load(Ordering::Relaxed)),
            thread: self.thread.load(Ordering::Relaxed),
            cpu: self.cpu.load(Ordering::Relaxed),
            at_ms: self.at_ms.load(Ordering::Relaxed),
        }
    }
}

/// A copy of the name of a cache.
pub(super) struct Name([u8; MAX_NAME]);

#[place(cold)]
impl Name {
    pub(super) fn as_str(&self) -> &str {
        let len = self.0.iter().position(|&byte| byte == 0).unwrap_or(MAX_NAME);
        core::str::from_utf8(&self.0[..len]).unwrap_or("?")
    }
}

#[place(cold)]
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[place(cold)]
impl Slot {
    const fn new() -> Slot {
        Slot {
            state: AtomicU32::new(State::Unused as u32),
            start: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            cache: AtomicUsize::new(0),
            name: [const { AtomicU8::new(0) }; MAX_NAME],
            allocated: Recorded::new(),
            freed: Recorded::new(),
        }
    }

    pub(super) fn is(&self, state: State) -> bool {
        self.state.load(Ordering::Acquire) == state as u32
    }

    pub(super) fn start(&self) -> usize {
        self.start.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the object is one of this cache.
    pub(super) fn is_of(&self, cache: &RawCache) -> bool {
        self.cache.load(Ordering::Relaxed) == core::ptr::from_ref(cache) as usize
    }

    /// Returns the name of the object's cache.
    pub(super) fn name(&self) -> Name {
        Name(core::array::from_fn(|at| self.name[at].load(Ordering::Relaxed)))
    }

    /// Returns who allocated the object, and who freed it.
    pub(super) fn tracks(&self) -> [(&'static str, Track); 2] {
        [("allocated", self.allocated.get()), ("freed", self.freed.get())]
    }

    /// Enters an object, which this thread is about to hand out.
    pub(super) fn allocate(&self, cache: &RawCache, start: usize, bytes: usize) {
        self.start.store(start, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        self.cache.store(core::ptr::from_ref(cache) as usize, Ordering::Relaxed);
        let name = cache.name().as_bytes();
        for (at, kept) in self.name.iter().enumerate() {
            kept.store(name.get(at).copied().unwrap_or(0), Ordering::Relaxed);
        }
        self.allocated.set(&Track::here(true));
        self.freed.set(&Track::NONE);
        self.state.store(State::Live as u32, Ordering::Release);
    }

    /// Ends the life of the object. Returns false if another thread has.
    pub(super) fn end_life(&self) -> bool {
        let (live, freed) = (State::Live as u32, State::Freed as u32);
        self.state.compare_exchange(live, freed, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Records that this thread, which ended the life of the object, frees it.
    pub(super) fn record_free(&self) {
        self.freed.set(&Track::here(true));
    }
}
