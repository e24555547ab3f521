//! The bytes of one object and of what lies around it.
//!
//! All of them lie in the slab, and a program that is debugged may overwrite each at any time. So
//! they are read and written as volatile bytes, and nothing that is read is relied on.
#![allow(unsafe_code, reason = "reads and writes the memory of slabs")]

use core::ptr;

use super::flags::DebugFlags;
use super::layout::Layout;
use super::state::DebugState;
use super::track::Track;
use crate::base::sync::Ordering;
use crate::base::units::PageIndex;
use crate::engine::RawCache;
use crate::pages::memmap::MEMMAP;
use crate::slab::freelist::{CorruptLink, read_link, write_link};
use crate::slab::state::SlabState;
use ashlar_macros::place;

/// What free bytes hold, and the last one of an object (the kernel's `POISON_FREE`, `POISON_END`).
pub(super) const POISON_FREE: u8 = 0x6b;
pub(super) const POISON_END: u8 = 0xa5;
/// What padding holds (`POISON_INUSE`).
pub(super) const POISON_INUSE: u8 = 0x5a;
/// What the red zones of free objects hold, and those of objects in use.
pub(super) const RED_INACTIVE: u8 = 0xbb;
pub(super) const RED_ACTIVE: u8 = 0xcc;

const LIVE: u64 = 0x6c69_7665 << 32;
const FREE: u64 = 0x6672_6565 << 32;

/// What an object's mark says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// In use; so many bytes were asked for.
    Live(usize),
    Free,
    /// Neither: the mark was overwritten.
    Bad,
}

#[place(cold)]
impl core::fmt::Display for Mark {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Mark::Live(size) => write!(f, "in use for {size} bytes"),
            Mark::Free => f.write_str("free"),
            Mark::Bad => f.write_str("state unknown"),
        }
    }
}

/// One of the two tracks of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Alloc,
    Free,
}

/// Returns what the engine keeps for one of its caches.
#[place(cold)]
pub(super) fn state_of(cache: &RawCache) -> &'static DebugState {
    cache.state.debug.expect("opened by this engine")
}

/// Returns the state of a slab.
#[place(cold)]
pub(super) fn load(page: PageIndex) -> SlabState {
    SlabState(MEMMAP.head(page).state.load(Ordering::Relaxed))
}

/// Stores the state of a slab, of whose node the caller holds list_lock.
#[place(cold)]
pub(super) fn set_state(page: PageIndex, state: SlabState) {
    MEMMAP.head(page).state.store(state.0, Ordering::Release);
}

/// An object of a slab of a debugged cache, in use or free. The slab stays while a value of the
/// type is used: the caller holds the node's list_lock, or has the slab to itself.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(super) cache: &'static RawCache,
    pub(super) state: &'static DebugState,
    pub(super) layout: Layout,
    pub(super) flags: DebugFlags,
    pub(super) page: PageIndex,
    /// Where the object begins.
    pub(super) at: usize,
}

impl Slot {
    /// Returns the object `index` of a slab of `cache`, which is one of at most as many as the slab
    /// has.
    #[place(cold)]
    pub(super) fn new(cache: &'static RawCache, state: &'static DebugState, page: PageIndex, index: u16) -> Slot {
        let (flags, geometry) = (state.flags(), &cache.slabs.geometry);
        let layout = Layout::new(geometry.object_size, geometry.align, flags);
        debug_assert_eq!((layout.stride(), layout.left), (geometry.stride, geometry.colour_off));
        let at = MEMMAP.address_of(page) + usize::from(index) * geometry.stride + layout.left;
        Slot { cache, state, layout, flags, page, at }
    }

    /// Returns the object of the same slab with another index.
    pub(super) fn with_index(self, index: u16) -> Slot {
        let start = MEMMAP.address_of(self.page) + self.layout.left;
        Slot { at: start + usize::from(index) * self.layout.stride(), ..self }
    }

    pub(super) fn offset_in_slab(&self) -> usize {
        self.at - MEMMAP.address_of(self.page)
    }

    /// Whether free objects are filled with poison, which would undo what a constructor did.
    pub(super) fn is_poisoned(&self) -> bool {
        self.flags.has(DebugFlags::POISON) && self.cache.slabs.ctor.is_none()
    }

    /// Reads a byte of the slab at `address`, from the left red zone of this object to its end.
    pub(super) fn byte(&self, address: usize) -> u8 {
        debug_assert!((self.at - self.layout.left..self.at + self.layout.end).contains(&address));
        // SAFETY: the address lies in the slab, which stays. All bytes are readable, whatever the
        // program writes to them meanwhile.
        unsafe { ptr::read_volatile(address as *const u8) }
    }

    /// Fills bytes of the slab, from the left red zone of this object to its end.
    #[place(cold)]
    pub(super) fn fill(&self, address: usize, value: u8, bytes: usize) {
        debug_assert!(address >= self.at - self.layout.left && address + bytes <= self.at + self.layout.end);
        // SAFETY: the range lies in the slab and in what belongs to this object. The object is
        // free, being allocated or being freed, or the range is none of the program's.
        unsafe { ptr::write_bytes(address as *mut u8, value, bytes) };
    }

    /// Fills the red zones and the object as its state asks: those of an object in use begin behind
    /// the bytes that were asked for. See the kernel's `init_object`.
    #[place(cold)]
    pub(super) fn init(&self, live: Option<usize>) {
        let Layout { left, size, link, .. } = self.layout;
        let red = if live.is_some() { RED_ACTIVE } else { RED_INACTIVE };
        let used = if self.state.is_sized() { live.unwrap_or(size) } else { size };
        if self.flags.has(DebugFlags::RED_ZONE) {
            self.fill(self.at - left, red, left);
        }
        if self.is_poisoned() && used > 0 {
            self.fill(self.at, POISON_FREE, used - 1);
            self.fill(self.at + used - 1, POISON_END, 1);
        }
        if self.flags.has(DebugFlags::RED_ZONE) {
            self.fill(self.at + used, red, link - used);
        }
    }

    /// Fills the right red zone of an object in use anew, where it holds `size` bytes from now on.
    #[place(cold)]
    pub(super) fn renew_red_zone(&self, size: usize) {
        if self.flags.has(DebugFlags::RED_ZONE) && self.state.is_sized() {
            self.fill(self.at + size, RED_ACTIVE, self.layout.link - size);
        }
    }

    /// Fills what is constant over the life of the slab.
    #[place(cold)]
    pub(super) fn init_padding(&self) {
        let Layout { tracks, padding, end, .. } = self.layout;
        self.fill(self.at + tracks, 0, padding - tracks);
        self.fill(self.at + padding, POISON_INUSE, end - padding);
    }

    fn mark_at(&self) -> (*mut u64, u64) {
        let address = self.at + self.layout.mark;
        (address as *mut u64, self.cache.slabs.secret.rotate_left(17) ^ (address as u64).swap_bytes())
    }

    pub(super) fn mark(&self) -> Mark {
        let (place, key) = self.mark_at();
        // SAFETY: the mark lies in the slab behind the object, and is aligned to a word.
        let plain = unsafe { place.read_volatile() } ^ key;
        let size = (plain & u64::from(u32::MAX)) as usize;
        match plain & !u64::from(u32::MAX) {
            LIVE if size <= self.layout.size => Mark::Live(size),
            FREE if size == 0 => Mark::Free,
            _ => Mark::Bad,
        }
    }

    #[place(cold)]
    pub(super) fn set_mark(&self, mark: Mark) {
        let (place, key) = self.mark_at();
        let plain = match mark {
            Mark::Live(size) => LIVE | size as u64,
            Mark::Free | Mark::Bad => FREE,
        };
        // SAFETY: as in `mark`; the word is none of the program's.
        unsafe { place.write_volatile(plain ^ key) };
    }

    /// Returns the bytes that were asked for.
    pub(super) fn requested(&self) -> usize {
        match self.mark() {
            Mark::Live(size) if self.state.is_sized() => size,
            _ => self.layout.size,
        }
    }

    #[place(cold)]
    pub(super) fn link(&self, objects: u16) -> Result<u16, CorruptLink> {
        // SAFETY: the link lies in the slab behind the object, aligned to a word, and list_lock
        // keeps other threads of this library from it.
        unsafe { read_link(self.at + self.layout.link, self.cache.slabs.secret, objects) }
    }

    #[place(cold)]
    pub(super) fn set_link(&self, next: u16) {
        // SAFETY: as in `link`.
        unsafe { write_link(self.at + self.layout.link, self.cache.slabs.secret, next) };
    }

    fn track_at(&self, event: Event) -> Option<*mut Track> {
        let place = self.at + self.layout.tracks + if event == Event::Free { size_of::<Track>() } else { 0 };
        self.flags.has(DebugFlags::STORE_USER).then_some(place as *mut Track)
    }

    /// Returns who did it last; `None` if that never happened, or is not recorded.
    #[place(cold)]
    pub(super) fn track(&self, event: Event) -> Option<Track> {
        let place = self.track_at(event)?;
        // SAFETY: with the flag, the track lies in the slab behind the object, aligned to a word.
        // Every value of its bytes is one of the type.
        let track = unsafe { place.read_volatile() };
        track.is_some().then_some(track)
    }

    #[place(cold)]
    pub(super) fn set_track(&self, event: Event, track: &Track) {
        if let Some(place) = self.track_at(event) {
            // SAFETY: as in `track`; the place is none of the program's.
            unsafe { place.write_volatile(*track) };
        }
    }
}
