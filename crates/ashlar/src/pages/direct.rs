//! Direct mappings: objects too large for the zone, each in a mapping of the page source.
//!
//! A hash table with chained nodes from [`super::meta`] finds them by address. Mappings this large
//! are rare and cost a system call each, so one lock is enough. Lock: the *direct lock*. The meta
//! lock is taken under it. A mapping is also moved under it, so that no other thread maps the
//! vacated addresses before the table is updated.
//!
//! [`size_without_lock`] reads the table without the lock, for threads that must not wait for a
//! fork. It walks a bucket, and [`CHANGES`] shows whether the table was changed meanwhile. For its
//! sake, the fields of nodes are atomics, and nodes are never freed.
#![allow(unsafe_code, reason = "nodes are raw metadata memory")]

use core::ptr::NonNull;

use super::meta::META;
use super::zone::{DIRECT_BYTES, ZONE};
use crate::base::report;
use crate::base::sync::{AtomicPtr, AtomicUsize, Ordering, SpinLock, Visit, fence, relax};
use crate::base::units::checked_align_up;

/// The contents that the caller of an allocation requires.
///
/// Memory with any contents is written before it is read. It is a buffer or an array that the
/// program fills from one end on, so huge pages spare page faults and TLB misses. They waste at
/// most the rest of the last one: 2 MiB of a mapping above [`DIRECT_BYTES`]. Zeroed memory may be a
/// sparse table, where each scattered word would cost a huge page of 2 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    Any,
    Zeros,
}

const BUCKETS: usize = 256;

struct Node {
    next: AtomicPtr<Node>,
    /// The start of the object. If its alignment exceeds the source's, the mapping starts `skipped`
    /// bytes earlier.
    start: AtomicUsize,
    skipped: AtomicUsize,
    /// Bytes from `start` to the end of the mapping.
    bytes: AtomicUsize,
}

/// The number of freed mappings that are remembered, to tell a double free from a foreign address.
const REMEMBERED: usize = 64;

static HEADS: [AtomicPtr<Node>; BUCKETS] = [const { AtomicPtr::new(core::ptr::null_mut()) }; BUCKETS];
/// Odd while the table is being changed; incremented before and after each change.
static CHANGES: AtomicUsize = AtomicUsize::new(0);

struct Table {
    spare: *mut Node,
    bytes: usize,
    /// Starts of the mappings freed last; the oldest is overwritten.
    freed: [usize; REMEMBERED],
    next_freed: usize,
}

// SAFETY: `spare` points to nodes that only the table owns; they are taken and added only under its
// lock.
unsafe impl Send for Table {}

#[place(large_bss)]
static TABLE: SpinLock<Table> =
    SpinLock::new(Table { spare: core::ptr::null_mut(), bytes: 0, freed: [0; REMEMBERED], next_freed: 0 });

fn bucket(start: usize) -> usize {
    (start >> 12).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize) >> (usize::BITS - 8)
}

/// Returns the nodes of the bucket of a start address.
fn nodes_of(start: usize) -> impl Iterator<Item = &'static Node> {
    nodes_from(&HEADS[bucket(start)])
}

fn nodes_from(head: &AtomicPtr<Node>) -> impl Iterator<Item = &'static Node> {
    // SAFETY: the pointer is null or points to a node. Nodes are never freed, and their fields are
    // atomics.
    let node = |at: *mut Node| unsafe { at.as_ref() };
    core::iter::successors(node(head.load(Ordering::Acquire)), move |n| node(n.next.load(Ordering::Acquire)))
}

/// Marks a change of the table from `begin` to the drop. The caller holds the direct lock.
struct Changing;

impl Changing {
    fn begin() -> Changing {
        CHANGES.store(CHANGES.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        // No reader may see the change before it can see the mark.
        fence(Ordering::Release);
        Changing
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGES.store(CHANGES.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
    }
}

impl Table {
    fn insert(&mut self, start: usize, bytes: usize, skipped: usize) -> bool {
        let _changing = Changing::begin();
        let mut place = self.spare;
        if place.is_null() {
            let Some(fresh) = META.alloc_unlent(size_of::<Node>(), align_of::<Node>()) else { return false };
            place = fresh.as_ptr().cast();
        }
        // SAFETY: the memory has a node's size and alignment, and is zeroed or was a node before.
        // Its fields are atomics.
        let node = unsafe { &*place };
        if place == self.spare {
            self.spare = node.next.load(Ordering::Relaxed);
        }
        let head = &HEADS[bucket(start)];
        node.start.store(start, Ordering::Relaxed);
        node.skipped.store(skipped, Ordering::Relaxed);
        node.bytes.store(bytes, Ordering::Relaxed);
        node.next.store(head.load(Ordering::Relaxed), Ordering::Relaxed);
        head.store(place, Ordering::Release);
        self.bytes += bytes;
        true
    }

    /// Remembers the start of a freed mapping.
    fn remember(&mut self, start: usize) {
        self.freed[self.next_freed % REMEMBERED] = start;
        self.next_freed = self.next_freed.wrapping_add(1);
    }

    /// Returns the bytes of an object, and the bytes before it in its mapping.
    fn find(&self, start: usize) -> Option<(usize, usize)> {
        let node = nodes_of(start).find(|node| node.start.load(Ordering::Relaxed) == start)?;
        Some((node.bytes.load(Ordering::Relaxed), node.skipped.load(Ordering::Relaxed)))
    }

    /// Removes an object. Returns the same as [`Self::find`].
    fn remove(&mut self, start: usize) -> Option<(usize, usize)> {
        let _changing = Changing::begin();
        let mut link = &HEADS[bucket(start)];
        for node in nodes_of(start) {
            if node.start.load(Ordering::Relaxed) == start {
                link.store(node.next.load(Ordering::Relaxed), Ordering::Release);
                node.next.store(self.spare, Ordering::Relaxed);
                self.spare = core::ptr::from_ref(node).cast_mut();
                let bytes = node.bytes.load(Ordering::Relaxed);
                self.bytes -= bytes;
                return Some((bytes, node.skipped.load(Ordering::Relaxed)));
            }
            link = &node.next;
        }
        None
    }
}

/// Maps `bytes`, rounded up to system pages, at a multiple of `align`, a power of two. The memory
/// is zeroed for both values of `fill`.
pub(crate) fn map(bytes: usize, align: usize, fill: Fill) -> Option<NonNull<u8>> {
    let source = ZONE.source()?;
    let bytes = checked_align_up(bytes, source.page_size())?;
    // The source aligns to its pages. For a larger alignment, the mapping is larger and the object
    // starts inside it. The pages before and after the object are never touched.
    let room = if align > source.page_size() { align } else { 0 };
    let mapping = source.map_direct(bytes.checked_add(room)?)?;
    let base = mapping.as_ptr() as usize;
    let start = crate::base::units::align_up(base, align);
    if TABLE.lock().insert(start, base + bytes + room - start, start - base) {
        let object = NonNull::new(start as *mut u8)?;
        if fill == Fill::Any && bytes > DIRECT_BYTES {
            // SAFETY: the range lies inside the mapping just made.
            unsafe { source.will_fill(object, bytes) };
        }
        return Some(object);
    }
    // SAFETY: this call mapped the range and published it nowhere.
    unsafe { source.unmap_direct(mapping, bytes + room) };
    None
}

/// Unmaps the mapping that starts at `at`. Returns its size, or `None` if there is none.
///
/// # Safety
/// If a direct mapping starts at `at`, no thread uses it any more.
pub(crate) unsafe fn unmap(at: NonNull<u8>) -> Option<usize> {
    let (bytes, skipped) = {
        let mut table = TABLE.lock();
        let found = table.remove(at.as_ptr() as usize)?;
        table.remember(at.as_ptr() as usize);
        found
    };
    if let Some(source) = ZONE.source()
        && let Some(base) = NonNull::new(at.as_ptr().wrapping_sub(skipped))
    {
        // SAFETY: the table held exactly this mapping, and the caller gives it up.
        unsafe { source.unmap_direct(base, skipped + bytes) };
    }
    Some(bytes)
}

/// Resizes a direct mapping, and may move it. `None` means that it is unchanged.
///
/// # Safety
/// No other thread uses the mapping during the call. After success, the old address is invalid.
#[inline(never)]
#[place(background)]
pub(crate) unsafe fn remap(at: NonNull<u8>, new_bytes: usize) -> Option<NonNull<u8>> {
    let source = ZONE.source()?;
    let new_bytes = checked_align_up(new_bytes, source.page_size())?;
    let mut table = TABLE.lock();
    if table.find(at.as_ptr() as usize)?.1 != 0 {
        return None; // An object inside its mapping is copied instead.
    }
    let (old, _) = table.remove(at.as_ptr() as usize)?;
    // The node just freed guarantees that the insert below finds one. The lock is held across the
    // system call, because otherwise another thread could map the vacated addresses before the
    // table is updated.
    // SAFETY: the table held exactly this mapping, and the caller expects it to move.
    let moved = unsafe { source.remap_direct(at, old, new_bytes) };
    let (start, bytes) = moved.map_or((at, old), |m| (m, new_bytes));
    table.insert(start.as_ptr() as usize, bytes, 0);
    if start != at {
        table.remember(at.as_ptr() as usize);
    }
    moved
}

/// Reports an address passed to `function` that lies outside the zone and starts no mapping. Walks
/// the whole table, because misuse is rare and most programs end at the first report.
#[cold]
#[inline(never)]
#[place(cold)]
pub(crate) fn report_stray(function: &str, address: usize) {
    let table = TABLE.lock();
    let around = HEADS.iter().flat_map(nodes_from).find_map(|node| {
        let (start, bytes) = (node.start.load(Ordering::Relaxed), node.bytes.load(Ordering::Relaxed));
        (start..start + bytes).contains(&address).then_some(start)
    });
    let freed = table.freed.contains(&address);
    // The lock is released first, because the report may run a handler of SIGABRT that allocates.
    drop(table);
    match around {
        Some(start) => report::inside_large(function, address, start),
        None if freed => report::huge_freed_twice(function, address),
        None => report::foreign(function, address),
    }
}

/// Returns the bytes of the object that starts at `address`, if it is mapped directly.
pub(crate) fn size_of_mapping(address: usize) -> Option<usize> {
    TABLE.lock().find(address).map(|(bytes, _)| bytes)
}

/// As [`size_of_mapping`], without the lock, because the thread that holds it for a fork may be
/// waiting for the calling thread.
pub(crate) fn size_without_lock(address: usize) -> Option<usize> {
    /// More nodes than a bucket has. It bounds a walk that concurrent changes turn into a circle.
    const STEPS: usize = 1 << 16;
    let mut waited = 0;
    loop {
        let before = CHANGES.load(Ordering::Acquire);
        let node = nodes_of(address).take(STEPS).find(|node| node.start.load(Ordering::Relaxed) == address);
        let bytes = node.map(|node| node.bytes.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        if before.is_multiple_of(2) && CHANGES.load(Ordering::Relaxed) == before {
            return bytes;
        }
        waited += 1;
        relax(waited);
    }
}

/// Returns the bytes in direct mappings.
pub(crate) fn total_bytes() -> usize {
    TABLE.lock().bytes
}

/// Returns the address of the word that holds the bytes, for a reader outside of the process.
#[cfg(all(feature = "os", not(ashlar_loom)))]
#[ashlar_macros::place(cold)]
pub(crate) fn bytes_word() -> usize {
    (&raw const TABLE).addr() + SpinLock::<Table>::VALUE + core::mem::offset_of!(Table, bytes)
}

/// Visits the direct lock, for a fork.
pub(crate) fn for_each_lock(visit: Visit<'_>) {
    visit(TABLE.word());
}
