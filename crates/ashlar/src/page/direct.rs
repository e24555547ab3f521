//! Direct mappings: objects too large for the zone, one mapping of the page source each.
//!
//! They lie outside the zone, so a small table finds them by address. It is an open hash of nodes taken
//! from [`super::meta`]; mappings this large are rare and cost a system call each, so one lock is enough.
//! Lock: the *direct lock*; the meta lock is taken under it, and the page source is called under it when a mapping
//! moves, so that nobody maps the vacated addresses before the table knows.
#![allow(unsafe_code, reason = "nodes are raw metadata memory")]

use core::ptr::NonNull;

use super::meta::META;
use super::zone::{DIRECT_BYTES, ZONE};
use crate::report;
use crate::sync::SpinLock;
use crate::units::checked_align_up;

/// What the caller of an allocation said of the contents.
///
/// Memory of any contents has to be written before it is read: a buffer or an array, which programs fill from an end on.
/// Huge pages spare it page faults and misses of the TLB, and cost it what of the last one is not filled: 2 MiB at an
/// end, of a mapping above [`DIRECT_BYTES`]. Memory that was asked to be zero may be a table of which words here and
/// there are ever written, and there each of them would cost 2 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    Any,
    Zeros,
}

const BUCKETS: usize = 256;

struct Node {
    next: *mut Node,
    /// Where the object starts; the mapping starts `skipped` bytes before, for alignments above the source's.
    start: usize,
    skipped: usize,
    /// Bytes from `start` to the end of the mapping.
    bytes: usize,
}

/// Freed mappings that are remembered, so that a second free can be told from a foreign address.
const REMEMBERED: usize = 64;

struct Table {
    buckets: [*mut Node; BUCKETS],
    spare: *mut Node,
    bytes: usize,
    /// Starts of the mappings freed last; the oldest is overwritten.
    freed: [usize; REMEMBERED],
    next_freed: usize,
}

// SAFETY: the nodes belong to the table alone and are reached only under its lock.
unsafe impl Send for Table {}

static TABLE: SpinLock<Table> = SpinLock::new(Table {
    buckets: [core::ptr::null_mut(); BUCKETS],
    spare: core::ptr::null_mut(),
    bytes: 0,
    freed: [0; REMEMBERED],
    next_freed: 0,
});

fn bucket(start: usize) -> usize {
    (start >> 12).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize) >> (usize::BITS - 8)
}

impl Table {
    fn insert(&mut self, start: usize, bytes: usize, skipped: usize) -> bool {
        let mut node = self.spare;
        if node.is_null() {
            let Some(fresh) = META.alloc(size_of::<Node>(), align_of::<Node>()) else { return false };
            node = fresh.as_ptr().cast();
        } else {
            // SAFETY: nodes on the spare list are valid and unused.
            self.spare = unsafe { (*node).next };
        }
        let b = bucket(start);
        // SAFETY: `node` is a private, writable node.
        unsafe { node.write(Node { next: self.buckets[b], start, skipped, bytes }) };
        self.buckets[b] = node;
        self.bytes += bytes;
        true
    }

    /// Remembers that a mapping is gone.
    fn remember(&mut self, start: usize) {
        self.freed[self.next_freed % REMEMBERED] = start;
        self.next_freed = self.next_freed.wrapping_add(1);
    }

    /// The bytes of an object, and those before it in its mapping.
    fn find(&self, start: usize) -> Option<(usize, usize)> {
        let mut node = self.buckets[bucket(start)];
        while !node.is_null() {
            // SAFETY: nodes on a bucket are valid while the lock is held.
            let n = unsafe { &*node };
            if n.start == start {
                return Some((n.bytes, n.skipped));
            }
            node = n.next;
        }
        None
    }

    /// Forgets an object; what [`Self::find`] says of it.
    fn remove(&mut self, start: usize) -> Option<(usize, usize)> {
        let b = bucket(start);
        let mut link: *mut *mut Node = &mut self.buckets[b];
        loop {
            // SAFETY: `link` points to the bucket or to the `next` of a valid node of it.
            let node = unsafe { *link };
            if node.is_null() {
                return None;
            }
            // SAFETY: non-null nodes on a bucket are valid.
            let n = unsafe { &*node };
            let (next, found, bytes, skipped) = (n.next, n.start == start, n.bytes, n.skipped);
            if found {
                // SAFETY: unlinks the node and pushes it on the spare list, both under the lock.
                unsafe {
                    *link = next;
                    (*node).next = self.spare;
                }
                self.spare = node;
                self.bytes -= bytes;
                return Some((bytes, skipped));
            }
            // SAFETY: the node is valid; its link field outlives this loop under the lock.
            link = unsafe { &raw mut (*node).next };
        }
    }
}

/// Maps `bytes`, rounded up to system pages, at a multiple of `align`, a power of two. Zeroed, whatever `fill` says.
pub(crate) fn map(bytes: usize, align: usize, fill: Fill) -> Option<NonNull<u8>> {
    let source = ZONE.source()?;
    let bytes = checked_align_up(bytes, source.page_size())?;
    // The source aligns to its pages. For more, map more and start inside: the pages before and after the object
    // are never touched.
    let room = if align > source.page_size() { align } else { 0 };
    let mapping = source.map_direct(bytes.checked_add(room)?)?;
    let base = mapping.as_ptr() as usize;
    let start = crate::units::align_up(base, align);
    if TABLE.lock().insert(start, base + bytes + room - start, start - base) {
        let object = NonNull::new(start as *mut u8)?;
        if fill == Fill::Any && bytes > DIRECT_BYTES {
            // SAFETY: inside the mapping just made.
            unsafe { source.will_fill(object, bytes) };
        }
        return Some(object);
    }
    // SAFETY: mapped just above and known to nobody.
    unsafe { source.unmap_direct(mapping, bytes + room) };
    None
}

/// Unmaps the mapping that starts at `at`; its size, or `None` when there is none.
///
/// # Safety
/// If `at` starts a direct mapping, nobody uses it any more.
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
        // SAFETY: the table held exactly this mapping; the caller gives it up.
        unsafe { source.unmap_direct(base, skipped + bytes) };
    }
    Some(bytes)
}

/// Changes the size of a direct mapping, moving it if need be; `None` leaves it alone.
///
/// # Safety
/// Nobody else uses the mapping during the call; on success the old address is dead.
pub(crate) unsafe fn remap(at: NonNull<u8>, new_bytes: usize) -> Option<NonNull<u8>> {
    let source = ZONE.source()?;
    let new_bytes = checked_align_up(new_bytes, source.page_size())?;
    let mut table = TABLE.lock();
    if table.find(at.as_ptr() as usize)?.1 != 0 {
        return None; // An object inside its mapping is copied instead.
    }
    let (old, _) = table.remove(at.as_ptr() as usize)?;
    // The node just freed guarantees that the insert below finds one. The lock is held across the system
    // call: otherwise another thread could map the vacated addresses before the table knows of the move.
    // SAFETY: the table held exactly this mapping and the caller lets it move.
    let moved = unsafe { source.remap_direct(at, old, new_bytes) };
    let (start, bytes) = moved.map_or((at, old), |m| (m, new_bytes));
    table.insert(start.as_ptr() as usize, bytes, 0);
    if start != at {
        table.remember(at.as_ptr() as usize);
    }
    moved
}

/// Reports an address that `function` was given, and that neither the zone holds nor a mapping starts at. Walks the
/// whole table: misuse is rare, and most programs end with its first report.
pub(crate) fn report_stray(function: &str, address: usize) {
    let table = TABLE.lock();
    let mut around = None;
    for &bucket in &table.buckets {
        let mut node = bucket;
        while !node.is_null() {
            // SAFETY: nodes on a bucket are valid while the lock is held.
            let n = unsafe { &*node };
            if (n.start..n.start + n.bytes).contains(&address) {
                around = Some(n.start);
            }
            node = n.next;
        }
    }
    let freed = table.freed.contains(&address);
    // The report may end the program by a handler of SIGABRT that allocates.
    drop(table);
    match around {
        Some(start) => report::inside_large(function, address, start),
        None if freed => report::huge_freed_twice(function, address),
        None => report::foreign(function, address),
    }
}

/// Bytes of the mapping that starts at `address`.
pub(crate) fn size_of_mapping(address: usize) -> Option<usize> {
    TABLE.lock().find(address).map(|(bytes, _)| bytes)
}

/// Bytes in direct mappings.
pub(crate) fn total_bytes() -> usize {
    TABLE.lock().bytes
}

/// Takes the direct lock, for fork.
pub(crate) fn lock_all() {
    TABLE.lock_raw();
}

/// Releases what [`lock_all`] took.
///
/// # Safety
/// This thread, or its parent's across fork, called `lock_all`.
pub(crate) unsafe fn unlock_all() {
    // SAFETY: by the caller's promise.
    unsafe { TABLE.unlock_raw() };
}
