//! A system as the whole heap of a program: objects of several kinds at once, from any thread.
//!
//! The tests A to F hold a handle for one size. A workload has kinds of objects: some have a name,
//! for which the kernel would have a cache, the others have a size alone. Ours create the caches
//! and serve the rest by kmalloc, as the kernel does; for a system with malloc alone, a kind is a
//! size.

use core::marker::PhantomData;

use serde::{Deserialize, Serialize};

use crate::systems::traits::{Calls, Slab};

/// A kind of objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kind {
    /// Of the cache; `None`: from kmalloc.
    pub(crate) name: Option<String>,
    /// Bytes.
    pub(crate) size: usize,
    /// Aligned to cache lines, as the kernel has it for many caches (`SLAB_HWCACHE_ALIGN`).
    /// Allocators of fixed sizes round up for that, `slob` leaves holes. A malloc is asked for
    /// whole lines.
    pub(crate) lines: bool,
}

impl Kind {
    /// A cache.
    pub(crate) fn cache(name: impl Into<String>, size: usize, lines: bool) -> Self {
        Self { name: Some(name.into()), size, lines }
    }

    /// The heads of messages.
    pub(crate) fn head() -> Self {
        Self::cache("skbuff_head_cache", HEAD, true)
    }

    /// Objects of kmalloc.
    pub(crate) fn kmalloc(size: usize) -> Self {
        Self { name: None, size, lines: false }
    }
}

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;
/// Bytes of a message's head: the kernel's `struct sk_buff` on a 64-bit machine in the years of the
/// mails. Its cache is aligned to lines.
pub(crate) const HEAD: usize = 232;

/// An allocator under test, for kinds of objects.
pub(crate) trait Heap: Sized + Send + Sync + 'static {
    /// Prepares the process, and a place for each of `kinds`. The error says why the system cannot
    /// run.
    fn open(kinds: &[Kind]) -> Result<Self, String>;

    /// Called on each thread before its first allocation, also on the first one.
    fn thread_start(&self) {}

    /// A new object of the kind with this number, or null.
    fn alloc(&self, kind: usize) -> *mut u8;

    /// Gives an object back.
    ///
    /// # Safety
    /// `object` is live and came from `alloc(kind)` of this heap, on whatever thread.
    unsafe fn free(&self, kind: usize, object: *mut u8);

    /// Its slabs, if it is a slab allocator.
    fn slab(&self) -> Option<Slab> {
        None
    }

    /// Asks the system to give free memory back, by what it has for that; says what was called,
    /// `None` if it has nothing.
    fn shrink(&self) -> Option<&'static str> {
        None
    }

    /// See [`crate::systems::traits::System::counts`].
    fn counts(&self) -> Option<ashlar::Counts> {
        None
    }

    /// What only the process can know about the system.
    fn note(&self) -> String {
        String::new()
    }
}

/// Makes a [`Heap`] of malloc and free: the sizes of the kinds.
#[derive(Debug)]
pub(crate) struct Malloced<C> {
    sizes: Vec<usize>,
    calls: PhantomData<C>,
}

impl<C: Calls> Heap for Malloced<C> {
    fn open(kinds: &[Kind]) -> Result<Self, String> {
        C::process_start()?;
        let size = |kind: &Kind| if kind.lines { kind.size.next_multiple_of(LINE) } else { kind.size };
        Ok(Self { sizes: kinds.iter().map(size).collect(), calls: PhantomData })
    }

    fn thread_start(&self) {
        C::thread_start();
    }

    #[inline(always)]
    fn alloc(&self, kind: usize) -> *mut u8 {
        C::alloc(self.sizes[kind])
    }

    #[inline(always)]
    unsafe fn free(&self, kind: usize, object: *mut u8) {
        // SAFETY: passed on; the size of a kind never changes, so it is that of the allocation.
        unsafe { C::free(object, self.sizes[kind]) }
    }

    fn slab(&self) -> Option<Slab> {
        C::slab()
    }

    fn shrink(&self) -> Option<&'static str> {
        C::shrink();
        C::SHRINK
    }

    fn counts(&self) -> Option<ashlar::Counts> {
        C::counts()
    }

    fn note(&self) -> String {
        C::note()
    }
}
