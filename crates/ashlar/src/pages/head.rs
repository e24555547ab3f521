//! The head entry of a run of pages: the user-space `struct page` / `struct slab`.

use crate::base::sync::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use crate::base::units::PageIndex;

const LISTED: u16 = 1;
/// The shift of the number of the partial list in `shape`; the order lies below it. Both have 4
/// bits.
const LIST: u32 = 20;
const NIBBLE: u8 = 0xf;
/// slab_lock in `shape`, of the engine that has it there. It is a bit of the number of the partial
/// list, which is 0 in that engine.
const LOCKED: u32 = 1 << LIST;
/// The shift of the number of evicted objects in `listed`, above [`LISTED`].
const EVICTED: u32 = 1;
/// The shift of the unit of colours, 8 bytes.
const COLOUR_SHIFT: u32 = 3;
/// The largest colour: the bytes before the first object of a slab.
#[cfg(not(ashlar_loom))]
pub(crate) const MAX_COLOUR: usize = (u16::MAX as usize) << COLOUR_SHIFT;

/// The metadata of one slab or one large object: 32 bytes, apart from the memory that it describes.
///
/// | field | written by | when |
/// |---|---|---|
/// | `state` | anyone, by compare-and-swap | see [`crate::slab`] |
/// | `next`, `prev` | holder of the node's list_lock | while the slab stands on a partial list |
/// | `owner` | owner of the run | between allocation from the zone and publication; constant after |
/// | `shape` | owner of the run | as `owner` |
#[repr(C)]
pub(crate) struct PageHead {
    /// The packed state word of a slab, or the number of pages of a large object.
    pub(crate) state: AtomicU64,
    next: AtomicU32,
    prev: AtomicU32,
    /// The address of the cache.
    owner: AtomicU64,
    /// Objects (bits 0..16), order (16..20), number of the partial list (20..24), node (24..32).
    shape: AtomicU32,
    /// Bit 0: the slab is on a list of its node. Bits 1..16: the number of its evicted objects, in
    /// the default engine. Both are guarded by list_lock.
    listed: AtomicU16,
    /// The engine's own half word. In SLAB it is the colour, constant like `shape`. In the engine
    /// `slub-2010-ll` it is a racy count of objects in use. In the default engine it is the number
    /// of objects that are live samples of a profile, written under the lock of the profile.
    own: AtomicU16,
}

/// The bytes of the page heads of a block.
pub(crate) const BLOCK_HEADS_BYTES: usize = crate::base::units::BLOCK_PAGES * size_of::<PageHead>();

impl PageHead {
    #[cfg(any(test, ashlar_loom))]
    pub(crate) fn new() -> Self {
        PageHead {
            state: AtomicU64::new(0),
            next: AtomicU32::new(0),
            prev: AtomicU32::new(0),
            owner: AtomicU64::new(0),
            shape: AtomicU32::new(0),
            listed: AtomicU16::new(0),
            own: AtomicU16::new(0),
        }
    }

    /// Initialises the entry of a fresh run.
    pub(crate) fn init(&self, owner: usize, objects: u16, order: u8, node: u8) {
        debug_assert!(order <= NIBBLE, "a larger order than the head has room for");
        self.owner.store(owner as u64, Ordering::Relaxed);
        let shape = u32::from(objects) | u32::from(order) << 16 | u32::from(node) << 24;
        self.shape.store(shape, Ordering::Relaxed);
        self.listed.store(0, Ordering::Relaxed);
        self.own.store(0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn owner(&self) -> usize {
        self.owner.load(Ordering::Relaxed) as usize
    }

    #[inline]
    pub(crate) fn objects(&self) -> u16 {
        self.shape.load(Ordering::Relaxed) as u16
    }

    #[inline]
    pub(crate) fn order(&self) -> u8 {
        (self.shape.load(Ordering::Relaxed) >> 16) as u8 & NIBBLE
    }

    /// Returns which of its node's partial lists the slab stands on while it is partial.
    #[inline]
    pub(crate) fn list(&self) -> u8 {
        (self.shape.load(Ordering::Relaxed) >> LIST) as u8 & NIBBLE
    }

    /// Sets the partial list of a fresh run, which is 0 after [`init`](Self::init).
    #[cfg(not(ashlar_loom))]
    pub(crate) fn set_list(&self, list: u8) {
        debug_assert!(list <= NIBBLE, "more lists than the head has room for");
        let rest = self.shape.load(Ordering::Relaxed) & !(u32::from(NIBBLE) << LIST);
        self.shape.store(rest | u32::from(list) << LIST, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn node(&self) -> u8 {
        (self.shape.load(Ordering::Relaxed) >> 24) as u8
    }

    #[inline]
    pub(crate) fn next(&self) -> PageIndex {
        PageIndex(self.next.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn prev(&self) -> PageIndex {
        PageIndex(self.prev.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn set_next(&self, page: PageIndex) {
        self.next.store(page.0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn set_prev(&self, page: PageIndex) {
        self.prev.store(page.0, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn listed(&self) -> bool {
        self.listed.load(Ordering::Relaxed) & LISTED != 0
    }

    #[inline]
    pub(crate) fn set_listed(&self, listed: bool) {
        let rest = self.listed.load(Ordering::Relaxed) & !LISTED;
        // Release is for `is_listed_for`.
        self.listed.store(rest | u16::from(listed), Ordering::Release);
    }

    /// Returns whether the slab is on the list of the cache at `owner` and of `node`, whose
    /// list_lock the caller holds. The pages may be another cache's by now. That cache set `owner`
    /// before it listed them, so a thread that sees the second sees the first.
    #[inline]
    pub(crate) fn is_listed_for(&self, owner: usize, node: u8) -> bool {
        self.listed.load(Ordering::Acquire) & LISTED != 0 && self.owner() == owner && self.node() == node
    }

    /// Returns the engine's own half word.
    #[inline]
    pub(crate) fn own(&self) -> u16 {
        self.own.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_own(&self, own: u16) {
        self.own.store(own, Ordering::Relaxed);
    }

    /// Takes slab_lock in `shape` if it is free. All other bits of `shape` are constant.
    #[inline]
    pub(crate) fn trylock(&self) -> bool {
        let shape = self.shape.load(Ordering::Relaxed);
        let locked = shape | LOCKED;
        shape != locked && self.shape.compare_exchange(shape, locked, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Releases slab_lock in `shape`, by a plain store.
    #[inline]
    pub(crate) fn unlock(&self) {
        self.shape.store(self.shape.load(Ordering::Relaxed) & !LOCKED, Ordering::Release);
    }

    /// Returns the number of evicted objects. Read under list_lock.
    pub(crate) fn evicted(&self) -> usize {
        usize::from(self.listed.load(Ordering::Relaxed) >> EVICTED)
    }

    /// Adds `count` evicted objects, under list_lock.
    #[cfg(not(ashlar_loom))]
    pub(crate) fn add_evicted(&self, count: usize) {
        self.set_evicted(self.evicted() + count);
    }

    /// Subtracts `count` evicted objects, under list_lock.
    #[cfg(not(ashlar_loom))]
    pub(crate) fn remove_evicted(&self, count: usize) {
        debug_assert!(count <= self.evicted(), "more objects leave than are evicted");
        self.set_evicted(self.evicted().saturating_sub(count));
    }

    fn set_evicted(&self, count: usize) {
        let rest = self.listed.load(Ordering::Relaxed) & LISTED;
        self.listed.store(rest | (count as u16) << EVICTED, Ordering::Release);
    }

    /// Returns the bytes before the first object, if the engine colours its slabs.
    #[inline]
    pub(crate) fn colour(&self) -> usize {
        usize::from(self.own.load(Ordering::Relaxed)) << COLOUR_SHIFT
    }

    /// Sets the colour of a fresh run, a multiple of 8 bytes up to [`MAX_COLOUR`].
    pub(crate) fn set_colour(&self, bytes: usize) {
        self.own.store((bytes >> COLOUR_SHIFT) as u16, Ordering::Relaxed);
    }
}
