//! What no allocator can beat: a stack of object pointers for each thread and size, without any
//! protection.
//!
//! `limit` is inlined and knows its stack; `limit-called` stands behind a real call and makes the
//! look-ups that every malloc and free must make: the stack from the size, and the stack from the
//! address through a page map. Both take objects only from the stack of their own thread, which
//! holds exactly as many as one pass needs, and free to the stack of whatever thread calls: there
//! is no slow path. Before each pass the stacks are filled anew.

use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crate::kit::options::MAX_SIZE;
use crate::systems::traits::{Handle, Setup, System};

/// Granule of the page map.
const PAGE: usize = 4096;
/// Alignment of the objects.
const GRANULE: usize = 8;
/// Each stack starts on a cache line of its own, and no stack has offset 0, which stands for
/// "none".
const LINE: usize = 64;

/// The memory of all threads.
///
/// A thread's area holds a stack for each size at the same offset: the address of the top entry, an
/// entry of zero that marks the bottom, then room for the objects of all threads, because in test F
/// one thread frees them all.
#[derive(Debug)]
struct Stacks {
    areas: *mut u8,
    area_size: usize,
    zone: *mut u8,
    objects: usize,
    /// For each size: offset of the stack in an area, and of the thread's first object in the zone.
    sizes: Vec<Class>,
    /// Bytes of the zone that belong to one thread.
    zone_share: usize,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    size: usize,
    stride: usize,
    stack: usize,
    first: usize,
}

// SAFETY: the pointers name mappings that live as long as the process; `prepare` is the only method
// that writes through them, and only to the area of the thread it is called for, which is the
// calling one.
unsafe impl Send for Stacks {}
// SAFETY: as above: no two threads write to the same area.
unsafe impl Sync for Stacks {}

impl Stacks {
    fn new(setup: &Setup, threads: usize) -> Result<Self, String> {
        let capacity = setup.objects * threads;
        let (mut area_size, mut zone_share) = (LINE, 0);
        let mut sizes = Vec::new();
        for &size in &setup.sizes {
            let stride = size.next_multiple_of(GRANULE);
            sizes.push(Class { size, stride, stack: area_size, first: zone_share });
            area_size += ((2 + capacity) * size_of::<*mut u8>()).next_multiple_of(LINE);
            zone_share += (stride * setup.objects).next_multiple_of(PAGE);
        }
        let area_size = area_size.next_multiple_of(PAGE);
        Ok(Self {
            areas: map(area_size * threads)?,
            area_size,
            zone: map(zone_share * threads)?,
            objects: setup.objects,
            sizes,
            zone_share,
        })
    }

    fn area(&self, me: usize) -> *mut u8 {
        self.areas.wrapping_add(me * self.area_size)
    }

    /// Fills the stack of `me` for `size` with its own objects, the lowest on top; returns its
    /// head.
    fn prepare(&self, me: usize, size: usize) -> *mut Top {
        // The parent asks only for sizes that it announced in the set-up.
        let class = self.sizes[self.sizes.iter().position(|class| class.size == size).unwrap_or_default()];
        let head = self.area(me).wrapping_add(class.stack).cast::<Top>();
        let bottom = head.wrapping_add(1).cast::<*mut u8>();
        let first = self.zone.wrapping_add(me * self.zone_share + class.first);
        // SAFETY: `head`, `bottom` and the `objects` entries after it lie in the part of the area
        // of `me` that `new` sized for them, aligned to 8 (areas are page-aligned, stacks
        // line-aligned). Only the thread `me` calls this, between two passes, so no other thread
        // reads or writes there.
        unsafe {
            bottom.write(core::ptr::null_mut());
            for at in 0..self.objects {
                bottom.add(self.objects - at).write(first.wrapping_add(at * class.stride));
            }
            head.write(bottom.add(self.objects));
        }
        head
    }
}

/// Address of the top entry of a stack.
type Top = *mut *mut u8;

fn map(length: usize) -> Result<*mut u8, String> {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing
    // memory.
    let address = unsafe { libc::mmap(core::ptr::null_mut(), length, access, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(format!("cannot map {length} bytes: {}", std::io::Error::last_os_error()));
    }
    Ok(address.cast())
}

/// The inlined stack.
#[derive(Debug)]
pub(crate) struct Limit(Stacks);

impl System for Limit {
    type Handle<'a> = Stack;

    fn new(setup: &Setup, threads: usize) -> Result<Self, String> {
        Stacks::new(setup, threads).map(Self)
    }

    fn handle(&self, me: usize, size: usize) -> Stack {
        Stack { head: self.0.prepare(me, size) }
    }
}

/// A thread's stack for one size.
#[derive(Debug)]
pub(crate) struct Stack {
    head: *mut Top,
}

impl Handle for Stack {
    #[inline(always)]
    fn alloc(&mut self) -> *mut u8 {
        // The head is volatile because an allocator's state is in memory: it may not stay in a
        // register of the loop. SAFETY: `head` is the head of this thread's stack (`prepare`). A
        // pass allocates at most the `objects` that `prepare` put there, so the top entry is one of
        // them and the one below it is in the stack too.
        unsafe {
            let top = self.head.read_volatile();
            let object = top.read();
            self.head.write_volatile(top.sub(1));
            object
        }
    }

    #[inline(always)]
    unsafe fn free(&mut self, object: *mut u8) {
        // SAFETY: the stack has room for the objects of all threads, and each is freed once
        // (contract), so the entry above the top is in the stack; only this thread uses it.
        unsafe {
            let top = self.head.read_volatile().add(1);
            top.write(object);
            self.head.write_volatile(top);
        }
    }
}

// What the called functions look up. Written once, before the threads start.
static SIZES: AtomicPtr<u32> = AtomicPtr::new(core::ptr::null_mut());
static PAGES: AtomicPtr<u32> = AtomicPtr::new(core::ptr::null_mut());
static ZONE: AtomicUsize = AtomicUsize::new(0);
static ZONE_SIZE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The area of this thread: what a per-CPU base is to an allocator.
    static AREA: Cell<*mut u8> = const { Cell::new(core::ptr::null_mut()) };
}

/// The stack behind calls.
#[derive(Debug)]
pub(crate) struct LimitCalled(Stacks);

impl System for LimitCalled {
    type Handle<'a> = CalledStack;

    fn new(setup: &Setup, threads: usize) -> Result<Self, String> {
        let stacks = Stacks::new(setup, threads)?;
        let mut sizes = vec![0u32; MAX_SIZE + 1];
        let mut pages = vec![0u32; stacks.zone_share * threads / PAGE];
        for (at, class) in stacks.sizes.iter().enumerate() {
            let offset = u32::try_from(class.stack).map_err(|_| "too many objects for 32-bit offsets".to_owned())?;
            sizes[class.size] = offset;
            let end = stacks.sizes.get(at + 1).map_or(stacks.zone_share, |next| next.first);
            for thread in 0..threads {
                let base = thread * stacks.zone_share;
                pages[(base + class.first) / PAGE..(base + end) / PAGE].fill(offset);
            }
        }
        ZONE.store(stacks.zone as usize, Ordering::Relaxed);
        ZONE_SIZE.store(stacks.zone_share * threads, Ordering::Relaxed);
        SIZES.store(sizes.leak().as_mut_ptr(), Ordering::Relaxed);
        PAGES.store(pages.leak().as_mut_ptr(), Ordering::Relaxed);
        Ok(Self(stacks))
    }

    fn thread_start(&self, me: usize) {
        AREA.set(self.0.area(me));
    }

    fn handle(&self, me: usize, size: usize) -> CalledStack {
        self.0.prepare(me, size);
        CalledStack { size: core::hint::black_box(size) }
    }
}

/// One size in a timed loop.
#[derive(Debug)]
pub(crate) struct CalledStack {
    size: usize,
}

impl Handle for CalledStack {
    #[inline(always)]
    fn alloc(&mut self) -> *mut u8 {
        limit_malloc(self.size)
    }

    #[inline(always)]
    unsafe fn free(&mut self, object: *mut u8) {
        // SAFETY: passed on.
        unsafe { limit_free(object) }
    }
}

/// Pops an object of `size` bytes from this thread's stack; null when there is none.
#[inline(never)]
extern "C" fn limit_malloc(size: usize) -> *mut u8 {
    let sizes = SIZES.load(Ordering::Relaxed);
    if size > MAX_SIZE || sizes.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: the table has MAX_SIZE + 1 entries and lives for ever.
    let offset = unsafe { *sizes.add(size) };
    if offset == 0 {
        return core::ptr::null_mut();
    }
    let head = AREA.get().wrapping_add(offset as usize).cast::<Top>();
    // SAFETY: `offset` is that of a stack in each area, and AREA is this thread's area: the threads
    // of the pool set it before they allocate. `prepare` made the head point to an entry. The
    // bottom entry is null and is never popped.
    unsafe {
        let top = head.read();
        let object = top.read();
        if !object.is_null() {
            head.write(top.sub(1));
        }
        object
    }
}

/// Pushes an object on this thread's stack for its page; an address outside the zone is ignored.
///
/// # Safety
/// An `object` inside the zone is live, came from [`limit_malloc`], and the calling thread is one
/// of the pool.
#[inline(never)]
unsafe extern "C" fn limit_free(object: *mut u8) {
    let at = (object as usize).wrapping_sub(ZONE.load(Ordering::Relaxed));
    if at >= ZONE_SIZE.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the map has an entry for each page of the zone, and `at` is inside it.
    let offset = unsafe { *PAGES.load(Ordering::Relaxed).add(at / PAGE) };
    if offset == 0 {
        return;
    }
    let head = AREA.get().wrapping_add(offset as usize).cast::<Top>();
    // SAFETY: `head` is a stack of this thread's area, as in `limit_malloc`; it has room for the
    // objects of all threads, and each is freed once.
    unsafe {
        let top = head.read().add(1);
        top.write(object);
        head.write(top);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        Setup {
            objects: 50,
            cpus: 2,
            sizes: vec![3, 8, 4096],
            fragmented: 0,
            holes: Vec::new(),
            large_sheaves: Vec::new(),
        }
    }

    #[test]
    fn objects_of_the_inlined_stack_do_not_overlap_and_come_back() {
        let limit = Limit::new(&setup(), 2).unwrap();
        for size in setup().sizes {
            let mut seen: Vec<usize> = Vec::new();
            for me in 0..2 {
                let mut handle = limit.handle(me, size);
                seen.extend((0..50).map(|_| handle.alloc() as usize));
            }
            seen.sort_unstable();
            assert!(seen.windows(2).all(|pair| pair[1] - pair[0] >= size), "{size}");
            // All to thread 0, as in test F.
            let mut handle = limit.handle(0, size);
            for _ in 0..50 {
                handle.alloc();
            }
            for &object in &seen {
                // SAFETY: each of these was allocated above and is freed once.
                unsafe { handle.free(object as *mut u8) };
            }
            assert_eq!(handle.alloc() as usize, seen[99]);
        }
    }

    #[test]
    fn the_called_stack_finds_its_class_by_size_and_by_address() {
        let limit = LimitCalled::new(&setup(), 2).unwrap();
        limit.thread_start(1);
        for size in setup().sizes {
            let mut handle = limit.handle(1, size);
            let object = handle.alloc();
            assert!(!object.is_null());
            // SAFETY: allocated above, freed once.
            unsafe { handle.free(object) };
            assert_eq!(handle.alloc(), object);
        }
        assert!(limit_malloc(100).is_null(), "a size that was not announced has no stack");
        assert!(limit_malloc(MAX_SIZE + 1).is_null());
    }
}
