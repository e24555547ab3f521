//! The allocators that the tests run on: ashlar, and others behind a spin lock with interrupts off,
//! which is how a kernel whose interrupt handlers allocate must use them.

use alloc::vec::Vec;
use core::alloc::Layout;
use core::ptr::NonNull;

use ashlar::{CacheArgs, KmemCache};
use spin::Mutex;
use x86_64::instructions::interrupts::without_interrupts;

use crate::machine::memory::Arena;

/// An allocator under test.
pub trait System: Sync {
    /// Its name, as the lab prints it.
    const NAME: &str;
    /// Whether it is the global allocator, so that collections are part of the test.
    const GLOBAL: bool = false;
    type Handle<'a>: Handle
    where
        Self: 'a;

    /// Returns how objects of `size` are had; `size` is one of those that the system was made for.
    fn handle(&self, size: usize) -> Self::Handle<'_>;

    /// Returns a number that is the same whenever the same objects are in use.
    fn in_use(&self) -> usize;
}

/// Objects of one size.
pub trait Handle: Copy {
    /// Returns an object, or null.
    fn alloc(self) -> *mut u8;

    /// Takes an object back.
    ///
    /// # Safety
    /// It is from a handle of this system and size, and not used any more.
    unsafe fn free(self, object: *mut u8);
}

/// `kmalloc` and `kfree`.
pub struct Kmalloc;

/// A size.
#[derive(Clone, Copy)]
pub struct OfSize(usize);

impl System for Kmalloc {
    const NAME: &str = "ashlar";
    const GLOBAL: bool = true;
    type Handle<'a> = OfSize;

    fn handle(&self, size: usize) -> OfSize {
        OfSize(size)
    }

    fn in_use(&self) -> usize {
        live()
    }
}

impl Handle for OfSize {
    #[inline(always)]
    fn alloc(self) -> *mut u8 {
        ashlar::kmalloc(self.0)
    }

    #[inline(always)]
    unsafe fn free(self, object: *mut u8) {
        // SAFETY: as the contract says.
        unsafe { ashlar::kfree(object) }
    }
}

/// A `kmem_cache` for each size.
pub struct Caches(Vec<(usize, KmemCache)>);

impl Caches {
    pub fn new(sizes: &[usize]) -> Result<Caches, &'static str> {
        let cache = |&size: &usize| Some((size, KmemCache::create("test", size, &CacheArgs::DEFAULT).ok()?));
        sizes.iter().map(cache).collect::<Option<_>>().map(Caches).ok_or("cannot create a cache")
    }
}

impl System for Caches {
    const NAME: &str = "ashlar-cache";
    type Handle<'a> = &'a KmemCache;

    fn handle(&self, size: usize) -> &KmemCache {
        let found = self.0.iter().find(|(of, _)| *of == size);
        &found.expect("a size that the caches were made for").1
    }

    fn in_use(&self) -> usize {
        live()
    }
}

impl Handle for &KmemCache {
    #[inline(always)]
    fn alloc(self) -> *mut u8 {
        KmemCache::alloc(self).map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    #[inline(always)]
    unsafe fn free(self, object: *mut u8) {
        // SAFETY: as the contract says; null is never handed out as an object.
        unsafe { KmemCache::free(self, NonNull::new_unchecked(object)) }
    }
}

/// Objects in use in all caches of ashlar.
fn live() -> usize {
    let mut sum = 0;
    ashlar::for_each_cache(|cache| sum += cache.usage.live);
    sum
}

/// A heap that one CPU at a time may use.
pub trait Heap: Send {
    /// Its name.
    const NAME: &str;

    /// # Safety
    /// The memory is the heap's alone.
    unsafe fn new(arena: Arena) -> Self;

    fn alloc(&mut self, layout: Layout) -> *mut u8;

    /// # Safety
    /// The object is from `alloc` with the same layout, and not used any more.
    unsafe fn free(&mut self, object: *mut u8, layout: Layout);
}

/// A heap behind a spin lock, with interrupts off.
pub struct Locked<H> {
    heap: Mutex<H>,
    most: usize,
}

impl<H: Heap> Locked<H> {
    /// # Safety
    /// The memory is this system's alone.
    pub unsafe fn new(arena: Arena) -> Locked<H> {
        // SAFETY: as the caller promises.
        Locked { heap: Mutex::new(unsafe { H::new(arena) }), most: arena.bytes }
    }
}

impl<H: Heap> System for Locked<H> {
    const NAME: &str = H::NAME;
    type Handle<'a>
        = Of<'a, H>
    where
        H: 'a;

    fn handle(&self, size: usize) -> Of<'_, H> {
        // Words, as all of them align small objects.
        Of { heap: &self.heap, layout: Layout::from_size_align(size, 8).expect("a size of an object") }
    }

    /// Returns the bytes that no single object can have: the heap is whole again when all is free.
    fn in_use(&self) -> usize {
        let (mut least, mut most) = (0, self.most);
        while most - least > 4096 {
            let middle = least.midpoint(most);
            let handle = self.handle(middle);
            let object = handle.alloc();
            if object.is_null() {
                most = middle;
            } else {
                // SAFETY: just allocated, and not used.
                unsafe { handle.free(object) };
                least = middle;
            }
        }
        self.most - least
    }
}

/// Objects of one size of a locked heap.
pub struct Of<'a, H> {
    heap: &'a Mutex<H>,
    layout: Layout,
}

impl<H> Clone for Of<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H> Copy for Of<'_, H> {}

impl<H: Heap> Handle for Of<'_, H> {
    #[inline(always)]
    fn alloc(self) -> *mut u8 {
        without_interrupts(|| self.heap.lock().alloc(self.layout))
    }

    #[inline(always)]
    unsafe fn free(self, object: *mut u8) {
        // SAFETY: as the contract says.
        without_interrupts(|| unsafe { self.heap.lock().free(object, self.layout) });
    }
}

fn raw(object: Option<NonNull<u8>>) -> *mut u8 {
    object.map_or(core::ptr::null_mut(), NonNull::as_ptr)
}

/// The crate `buddy-alloc`: a buddy allocator with bit maps.
pub struct Buddy(buddy_alloc::buddy_alloc::BuddyAlloc);

// SAFETY: it refers to its arena alone.
unsafe impl Send for Buddy {}

impl Heap for Buddy {
    const NAME: &str = "buddy-alloc";

    unsafe fn new(arena: Arena) -> Buddy {
        let parameters = buddy_alloc::buddy_alloc::BuddyAllocParam::new(arena.start as *const u8, arena.bytes, 16);
        // SAFETY: as the caller promises.
        Buddy(unsafe { buddy_alloc::buddy_alloc::BuddyAlloc::new(parameters) })
    }

    fn alloc(&mut self, layout: Layout) -> *mut u8 {
        self.0.malloc(layout.size())
    }

    unsafe fn free(&mut self, object: *mut u8, _: Layout) {
        self.0.free(object);
    }
}

impl Heap for buddy_system_allocator::Heap<32> {
    const NAME: &str = "buddy_system_allocator";

    unsafe fn new(arena: Arena) -> Self {
        let mut heap = buddy_system_allocator::Heap::empty();
        // SAFETY: as the caller promises.
        unsafe { heap.init(arena.start, arena.bytes) };
        heap
    }

    fn alloc(&mut self, layout: Layout) -> *mut u8 {
        raw(buddy_system_allocator::Heap::alloc(self, layout).ok())
    }

    unsafe fn free(&mut self, object: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises; objects are not null.
        unsafe { self.dealloc(NonNull::new_unchecked(object), layout) };
    }
}

impl Heap for linked_list_allocator::Heap {
    const NAME: &str = "linked_list_allocator";

    unsafe fn new(arena: Arena) -> Self {
        // SAFETY: as the caller promises.
        unsafe { linked_list_allocator::Heap::new(arena.start as *mut u8, arena.bytes) }
    }

    fn alloc(&mut self, layout: Layout) -> *mut u8 {
        raw(self.allocate_first_fit(layout).ok())
    }

    unsafe fn free(&mut self, object: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises; objects are not null.
        unsafe { self.deallocate(NonNull::new_unchecked(object), layout) };
    }
}

/// The crate `talc`.
pub type Talc = talc::base::Talc<talc::source::Manual, talc::base::binning::DefaultBinning>;

impl Heap for Talc {
    const NAME: &str = "talc";

    unsafe fn new(arena: Arena) -> Self {
        let mut heap = Talc::new(talc::source::Manual);
        // SAFETY: as the caller promises.
        unsafe { heap.claim(arena.start as *mut u8, arena.bytes) }.expect("an arena has room");
        heap
    }

    fn alloc(&mut self, layout: Layout) -> *mut u8 {
        // SAFETY: no object of the lab has size 0.
        raw(unsafe { self.allocate(layout) })
    }

    unsafe fn free(&mut self, object: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { self.deallocate(object, layout) };
    }
}
