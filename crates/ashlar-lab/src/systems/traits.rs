//! What an allocator under test is: a handle for one size, or two functions.

use core::marker::PhantomData;

use serde::{Deserialize, Serialize};

/// An allocator under test, as one process of its own sees it.
pub(crate) trait System: Sized + Send + Sync + 'static {
    /// What a timed loop holds.
    type Handle<'a>: Handle;

    /// Prepares the process for `threads` threads. The error says why the system cannot run.
    fn new(setup: &Setup, threads: usize) -> Result<Self, String>;

    /// Called on each thread before its first handle.
    fn thread_start(&self, _me: usize) {}

    /// A handle for objects of `size` bytes on thread `me`. Never inside the timed part.
    fn handle(&self, me: usize, size: usize) -> Self::Handle<'_>;

    /// What only the process can know about the system, for the host block.
    fn note(&self) -> String {
        String::new()
    }

    /// Locks taken, operations beyond the fast path and the like since the start, of systems that
    /// count them.
    fn counts(&self) -> Option<ashlar::Counts> {
        None
    }
}

/// Bytes by which the objects of a fragmented heap are smaller than those measured.
pub(crate) const LESS: usize = 8;

/// What a child must know before it can start its threads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// Objects for each thread and pass.
    pub(crate) objects: usize,
    /// Threads of the concurrent tests.
    pub(crate) cpus: usize,
    /// All sizes that will be asked for.
    pub(crate) sizes: Vec<usize>,
    /// Objects of each of `holes` that are allocated before anything else; every second is freed.
    pub(crate) fragmented: usize,
    /// Their sizes.
    pub(crate) holes: Vec<usize>,
    /// Those of the sizes whose caches have the largest sheaves there are, where the system has
    /// caches.
    pub(crate) large_sheaves: Vec<usize>,
}

/// One size of one system on one thread.
pub(crate) trait Handle {
    /// A new object, or null.
    fn alloc(&mut self) -> *mut u8;

    /// Gives an object back.
    ///
    /// # Safety
    /// `object` is live and came from `alloc` of a handle of the same system and size, on any
    /// thread.
    unsafe fn free(&mut self, object: *mut u8);

    /// Whether there are calls for many objects at a time.
    const BULK: bool = false;

    /// Fills `out` with new objects; false, and nothing taken, when memory ends. The system has
    /// [`Handle::BULK`].
    fn alloc_bulk(&mut self, _out: &mut [*mut u8]) -> bool {
        false
    }

    /// Gives many objects back. The system has [`Handle::BULK`].
    ///
    /// # Safety
    /// As for [`Handle::free`], of each; none occurs twice.
    unsafe fn free_bulk(&mut self, _objects: &[*mut u8]) {}
}

/// A system that is two functions, called as its users call them.
pub(crate) trait Calls: Send + Sync + 'static {
    /// Called once, before any other.
    fn process_start() -> Result<(), String> {
        Ok(())
    }

    /// Called on each thread before its first allocation.
    fn thread_start() {}

    fn alloc(size: usize) -> *mut u8;

    /// Gives an object back. `size` is what it was allocated with; an unsized free ignores it.
    ///
    /// # Safety
    /// `object` is live and came from `alloc(size)` of this system.
    unsafe fn free(object: *mut u8, size: usize);

    /// See [`System::note`].
    fn note() -> String {
        String::new()
    }

    /// See [`System::counts`].
    fn counts() -> Option<ashlar::Counts> {
        None
    }

    /// See [`crate::systems::heap::Heap::slab`].
    fn slab() -> Option<Slab> {
        None
    }

    /// What [`Calls::shrink`] calls; `None` where the allocator has nothing of the kind.
    const SHRINK: Option<&'static str> = None;

    /// Asks the allocator to give free memory back to the system, by what it has for that.
    fn shrink() {}
}

/// What the kernel shows as `Slab:`, of systems that are slab allocators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Slab {
    /// Bytes of all pages that slabs and large objects have.
    pub(crate) bytes: usize,
    /// Bytes that describe and queue them, which the kernel counts in part: caches, sheaves,
    /// tables.
    pub(crate) metadata: usize,
}

/// Makes a [`System`] of two functions.
#[derive(Debug)]
pub(crate) struct Called<C>(PhantomData<C>);

/// The size is a run-time value of the loop, as in a program that allocates what a request asks
/// for.
#[derive(Debug)]
pub(crate) struct CalledHandle<C> {
    size: usize,
    calls: PhantomData<C>,
}

impl<C: Calls> System for Called<C> {
    type Handle<'a> = CalledHandle<C>;

    fn new(_setup: &Setup, _threads: usize) -> Result<Self, String> {
        C::process_start().map(|()| Self(PhantomData))
    }

    fn thread_start(&self, _me: usize) {
        C::thread_start();
    }

    fn handle(&self, _me: usize, size: usize) -> CalledHandle<C> {
        CalledHandle { size: core::hint::black_box(size), calls: PhantomData }
    }

    fn note(&self) -> String {
        C::note()
    }

    fn counts(&self) -> Option<ashlar::Counts> {
        C::counts()
    }
}

impl<C: Calls> Handle for CalledHandle<C> {
    #[inline(always)]
    fn alloc(&mut self) -> *mut u8 {
        C::alloc(self.size)
    }

    #[inline(always)]
    unsafe fn free(&mut self, object: *mut u8) {
        // SAFETY: passed on; all handles of one pass have the same size, so it is the size of the
        // allocation.
        unsafe { C::free(object, self.size) }
    }
}
