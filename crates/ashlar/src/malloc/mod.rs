//! Layer 6, malloc: C's allocator, on caches of finer classes than kmalloc's.
//!
//! Sizes up to 28 KiB come from caches named `malloc-16` to `malloc-28672` (see `classes`), larger ones are runs of
//! pages, those above 32 MiB mappings of their own, as for [`crate::kmalloc`]. A cache is made
//! when its class is first used, so a program has those that it needs. The rules are those of glibc's manual: everything is
//! aligned to 16 bytes, a size of 0 gets memory of its own, failure sets `errno`, success and `free` leave it alone.
//!
//! * `entry`: `malloc` and `free` with their fast paths.
//! * `check`: what pointers are; misuse of `free` (the object map, `pages::objmap`, knows every live object).
//! * `resize` is `realloc`.
//! * `beside_fork`: what these do while another thread forks.
//! * this file: everything else behind the fast paths.
//!
//! The C names, with their exact argument rules, are in the crate `ashlar-malloc`; here are Rust functions.
#![allow(unsafe_code, reason = "hands out and takes back raw memory")]

pub(crate) mod beside_fork;
mod check;
mod classes;
pub(crate) mod entry;
mod resize;

use core::ptr::NonNull;

use crate::base::sync::{AtomicPtr, AtomicUsize, Once, Ordering};
use crate::base::units::{BLOCK_SIZE, PAGE_SIZE};
pub use crate::cache::settings::DeepBind;
use crate::cache::{CacheArgs, create_raw};
use crate::engine::{self, Policy, RawCache};
use crate::kmalloc::{alloc_large, free_large};
use crate::pages::direct::{self, Fill};
use crate::pages::objmap::OBJECTS;
use crate::pages::zone::ZONE;
use crate::percpu;
use crate::percpu::area::{PERCPU, PerCpu, SIDED_SLOTS, SIZE_ENTRIES_BYTES, SLOT_BYTES};
use crate::slab::OrderRule;
use check::Found;
pub use classes::MALLOC_MAX_CACHE_SIZE;
use classes::{CLASSES, Code, NAME, STEP, aligned_class, class_of, name_of_class, size_of_class};
#[cfg(all(target_arch = "x86_64", feature = "os"))]
#[doc(hidden)]
pub use entry::parts;
pub use entry::{free, malloc};
#[cfg(all(target_arch = "x86_64", feature = "os"))]
#[doc(hidden)]
pub use entry::{open_derived_allocs, open_derived_frees};
pub use resize::realloc;

static CACHES: [AtomicPtr<RawCache>; CLASSES] = [const { AtomicPtr::new(core::ptr::null_mut()) }; CLASSES];
/// Offset of the slot that a code of 0 would have: eight times a code leads from there to the slot of its cache.
pub(crate) const SLOT_OF_CODE_0: usize = SIDED_SLOTS - 8 * Code::of_class(0).entry() as usize;
/// The entry of the object map for each size up to 28 KiB, by the size in steps of 16 bytes, rounded up, on CPUs of side 0. As all classes are
/// multiples of that, sizes with one step have one class: a table of 2 KiB, where one by the size itself would take 28, and a cache line for
/// each 64 sizes. Each CPU's area has it, with the entries of the CPU's side (see [`entry`]).
static SIZE_CODE: [u8; SIZE_ENTRIES_BYTES] = {
    assert!(SIZE_ENTRIES_BYTES == MALLOC_MAX_CACHE_SIZE / STEP + 1);
    let mut table = [0; SIZE_ENTRIES_BYTES];
    let mut steps = 0;
    while steps < table.len() {
        table[steps] = Code::of_class(class_of(steps * STEP)).entry();
        steps += 1;
    }
    table
};

/// What malloc's caches stand on. A child of a fork may make it again, which changes nothing of what was done.
static BASE: Once = Once::new();
/// Objects above this size lie in slabs of up to this order, so that a slab holds several, and not many: it goes to others when all are free.
const LARGE_CLASS: usize = 4 << 10;
const LARGE_CLASS_ORDER: u8 = 4;

/// Of its caches. They keep less than others: a program uses dozens of them at once, has two sheaves of each on each CPU, and what one
/// holds the others cannot have. Sheaves that cover 31 KiB of objects, and a CPU's own half of that, cost little time where those of 64
/// took a tenth of a program's memory (docs/why.md). Objects of up to 128 bytes are excepted: of those programs have most, and CPUs hand
/// most to each other.
static SMALL: Policy = Policy {
    family: 2,
    tracked: true,
    sided: true,
    full_sheaf_stride: 128,
    sheaf_bytes: 31 << 10,
    this_cpu_bytes: 15 << 10,
    refill_share: Some(8),
    ..Policy::GENEROUS
};
/// Of caches of objects above a page: a program has few of each size, filling them takes longer than allocating them, and their free objects
/// were most of what it held.
static LARGE: Policy = Policy {
    family: 2,
    tracked: true,
    sided: true,
    full_sheaf_stride: 0,
    sheaf_bytes: 32 << 10,
    this_cpu_bytes: 15 << 10,
    refill_share: Some(8),
    barn_bytes: 128 << 10,
    min_partial: Some(1),
    ..Policy::GENEROUS
};

/// What to call when start-up is over; 0 for nothing.
static WHEN_UP: AtomicUsize = AtomicUsize::new(0);

/// Has `then` called when start-up is over: now, or by the first call that needs memory, before that returns; maybe more than once, or not
/// at all where another thread is amid the start. What only start-up used can go then.
pub fn when_up(then: fn()) {
    WHEN_UP.store(then as usize, Ordering::Release);
    if BASE.is_up() {
        then();
    }
}

/// How CPU-local sections are protected. Starts what malloc needs if it is not up, and no more.
pub fn mode() -> percpu::Mode {
    ensure();
    percpu::mode()
}

/// What the option `deepbind` has for a `dlopen` that stands before the C library's. Starts what
/// malloc needs if it is not up: options are read then.
#[place(cold)]
pub fn deepbind() -> DeepBind {
    ensure();
    crate::cache::settings::options().deepbind
}

/// Makes sure that malloc can have caches; false when memory for that is refused.
#[inline]
fn ensure() -> bool {
    BASE.is_up() || ensure_slow()
}

#[cold]
#[inline(never)]
fn ensure_slow() -> bool {
    let up = start_once();
    let then = WHEN_UP.load(Ordering::Acquire);
    if up && then != 0 {
        // SAFETY: only `when_up` stores here, and only values of this function type.
        let then = unsafe { core::mem::transmute::<*const (), fn()>(core::ptr::with_exposed_provenance(then)) };
        then();
    }
    up
}

#[inline(never)]
#[place(cold)]
fn start_once() -> bool {
    crate::boot::ensure_base() && BASE.ensure(start)
}

/// See [`Once::after_fork_in_child`].
pub(crate) fn after_fork_in_child() {
    BASE.after_fork_in_child();
}

fn start() -> bool {
    if !ZONE.start_objects() {
        return false;
    }
    // The entry points serve sheaves, and know the map at its place only; else every call is one of the slow path, the sooner the better.
    let fast = crate::cache::settings::options().engine.has_sheaves() && OBJECTS.is_in_place();
    OBJECTS.open(percpu::slot0(0) + SLOT_OF_CODE_0, ZONE.nodes() == 1 && fast);
    if fast {
        PERCPU.set_size_entries(&SIZE_CODE);
        entry::LIMIT.open(MALLOC_MAX_CACHE_SIZE);
    }
    true
}

/// The cache of a class: made when the class is first used, since most programs use few of the classes and each cache has a page's share
/// of metadata. The fast paths need no test for it: before there is a cache its slot has no sheaf. `None` when memory for it is refused; the
/// next call tries again.
#[inline]
fn cache(class: usize) -> Option<&'static RawCache> {
    // SAFETY: what is stored here is a cache of the registry, which is never destroyed.
    unsafe { CACHES[class].load(Ordering::Acquire).as_ref() }.or_else(|| create_cache(class))
}

/// Threads that need the first object of a class at the same time get one cache: there is one for a slot that is set aside.
#[cold]
fn create_cache(class: usize) -> Option<&'static RawCache> {
    let rule = crate::cache::settings::order_rule().0;
    let larger = rule.max_order == OrderRule::DEFAULT.max_order;
    let size = size_of_class(class);
    let mut place = NAME;
    let name = name_of_class(class, &mut place);
    let max_order = (larger && size > LARGE_CLASS).then_some(LARGE_CLASS_ORDER.max(rule.min_order));
    // The alignment that `aligned_class` counts on.
    let align = (1 << size.trailing_zeros()).min(PAGE_SIZE);
    let args = CacheArgs { align, max_order, ..CacheArgs::default() };
    let policy = if size > PAGE_SIZE { &LARGE } else { &SMALL };
    let slot = (SIDED_SLOTS + class * SLOT_BYTES) as u16;
    let raw = create_raw(name, size, &args, policy, Some(slot)).ok()?;
    CACHES[class].store(core::ptr::from_ref(raw).cast_mut(), Ordering::Release);
    Some(raw)
}

/// Whether calls of `malloc` are served by their fast path, and those of `free` too unless the machine has several nodes. Not in the mode `lock`,
/// not by engines without sheaves, and not where something else lies at the place of the object map: then each call takes the slow path, which
/// does the same. False before the first call, too.
pub fn has_fast_paths() -> bool {
    entry::LIMIT.is_open() && percpu::mode() != percpu::Mode::Lock
}

/// The cache of an object whose entry in the map has this code.
#[inline]
fn cache_of(code: Code) -> &'static RawCache {
    // SAFETY: only who allocates from a cache enters the code of its class, so there is one; it is never destroyed. Whoever has the
    // address of an object was handed it by who saw the cache.
    unsafe { &*CACHES[code.class()].load(Ordering::Acquire) }
}

/// The cache of the live object of malloc that starts at `address`; `None` if there is none.
pub(crate) fn cache_of_object(address: usize) -> Option<&'static RawCache> {
    Code::from_map(OBJECTS.code_at(address)).map(cache_of)
}

/// A live object of a class; `None` when memory ends. Where there is no memory for the class's
/// cache, but free pages, as there are in a program that met its limit and gave much back, a page
/// or more serves.
fn alloc_class(class: usize) -> Option<NonNull<u8>> {
    let Some(cache) = cache(class) else {
        return alloc_large(size_of_class(class), PAGE_SIZE, Fill::Any);
    };
    let object = NonNull::new(engine::alloc(cache))?;
    if !cfg!(ashlar_unchecked) {
        let entry = Code::of_class(class).entry();
        OBJECTS.enter(object.as_ptr() as usize, entry | PerCpu::side_of(percpu::this_cpu()));
    }
    Some(object)
}

/// Allocates `size` bytes at a multiple of `align` behind the fast path, by `allocate` or, beside a
/// fork, without the allocator. Does with errno what is needed: `ENOMEM` on failure, untouched
/// otherwise.
fn allocate_slowly(size: usize, align: usize, allocate: impl FnOnce() -> Option<NonNull<u8>>) -> *mut u8 {
    let before = errno::get();
    let found = beside_fork::pass(|| if ensure() { allocate() } else { None }, || beside_fork::alloc(size, align));
    errno::set(if found.is_none() { errno::ENOMEM } else { before });
    found.map_or(core::ptr::null_mut(), NonNull::as_ptr)
}

/// `malloc` when the fast path had nothing.
pub extern "C" fn malloc_slow(size: usize) -> *mut u8 {
    allocate_slowly(size, STEP, || {
        if size > MALLOC_MAX_CACHE_SIZE {
            return alloc_large(size, PAGE_SIZE, Fill::Any);
        }
        alloc_class(class_of(size))
    })
}

/// `free` of what does not fit on this CPU's sheaf, or is no live object of malloc's caches: a large one, a mapping, null, or misuse.
///
/// # Safety
/// As for [`free`].
pub unsafe extern "C" fn free_slow(ptr: *mut u8) {
    if ptr.is_null() {
        return;
    }
    let before = errno::get();
    beside_fork::pass(|| free_found(ptr), || beside_fork::leave(ptr as usize));
    errno::set(before);
}

fn free_found(ptr: *mut u8) {
    let entry = OBJECTS.take(ptr as usize);
    match Code::from_map(entry) {
        Some(code) if entry & 1 == PerCpu::side_of(percpu::this_cpu()) => engine::free(cache_of(code), ptr as usize),
        Some(code) => engine::free_remote(cache_of(code), ptr as usize),
        None => release("free", ptr),
    }
}

/// Frees what starts at `ptr`, for `function`; reports what is none.
fn release(function: &str, ptr: *mut u8) {
    match check::find(function, ptr as usize) {
        Some(Found::Object(code)) => {
            OBJECTS.take(ptr as usize);
            engine::free(cache_of(code), ptr as usize);
        }
        Some(Found::Other(cache) | Found::Sized(cache, _)) => engine::free(cache, ptr as usize),
        Some(Found::Large(page, pages)) => free_large(page, pages),
        Some(Found::Direct(_)) => {
            if let Some(at) = NonNull::new(ptr) {
                // SAFETY: the caller gives the mapping up; the table knows its size.
                unsafe { direct::unmap(at) };
            }
        }
        Some(Found::Island(_)) => _ = beside_fork::free(ptr as usize),
        None => {}
    }
}

/// Memory of `size` bytes, all zero, as `calloc`.
pub fn calloc(count: usize, size: usize) -> *mut u8 {
    let Some(bytes) = count.checked_mul(size) else {
        errno::set(errno::ENOMEM);
        return core::ptr::null_mut();
    };
    if bytes <= MALLOC_MAX_CACHE_SIZE {
        let ptr = malloc(bytes);
        if !ptr.is_null() {
            // SAFETY: `bytes` fresh bytes.
            unsafe { ptr.write_bytes(0, bytes) };
        }
        return ptr;
    }
    allocate_slowly(bytes, STEP, || alloc_large(bytes, PAGE_SIZE, Fill::Zeros))
}

/// Memory of at least `size` bytes at a multiple of `align`, a power of two; anything else fails with `EINVAL`.
pub fn malloc_aligned(align: usize, size: usize) -> *mut u8 {
    if !align.is_power_of_two() {
        errno::set(errno::EINVAL);
        return core::ptr::null_mut();
    }
    if align <= STEP {
        return malloc(size);
    }
    if align <= PAGE_SIZE
        && let Some(class) = aligned_class(size, align)
    {
        return malloc(size_of_class(class));
    }
    allocate_slowly(size, align, || {
        if align > BLOCK_SIZE {
            // The zone aligns to its blocks at most.
            size.checked_add(align)
                .filter(|&sum| sum <= isize::MAX as usize)
                .and_then(|_| direct::map(size.max(1), align, Fill::Any))
        } else {
            alloc_large(size.max(1), align, Fill::Any)
        }
    })
}

/// Bytes that may be used behind `ptr`, at least as many as were asked for; 0 for null.
///
/// # Safety
/// `ptr` is null or was allocated here and was not freed.
#[inline]
pub unsafe fn malloc_usable_size(ptr: *const u8) -> usize {
    match check::object_bytes(ptr as usize) {
        0 if ptr.is_null() => 0,
        0 => {
            let usual = || check::find("malloc_usable_size", ptr as usize).map(|found| found.bytes());
            beside_fork::pass(usual, || check::bytes_without_locks(ptr as usize)).unwrap_or(0)
        }
        bytes => bytes,
    }
}

/// The C library's error number of this thread.
#[cfg(feature = "os")]
mod errno {
    pub(super) use libc::{EINVAL, ENOMEM};

    pub(super) fn get() -> i32 {
        // SAFETY: the C library gives the address of this thread's errno, which is always valid.
        unsafe { *libc::__errno_location() }
    }

    pub(super) fn set(value: i32) {
        // SAFETY: as in `get`.
        unsafe { *libc::__errno_location() = value };
    }
}
/// Without a C library there is no error number.
#[cfg(not(feature = "os"))]
mod errno {
    pub(super) const EINVAL: i32 = 22;
    pub(super) const ENOMEM: i32 = 12;

    pub(super) fn get() -> i32 {
        0
    }

    pub(super) fn set(_value: i32) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(all(feature = "os", target_arch = "x86_64"))]
    use crate::percpu::area::PERCPU;
    use std::prelude::rust_2024::*;

    #[test]
    fn caches_of_larger_objects_keep_fewer() {
        let capacities = |stride| {
            let policy = if stride > PAGE_SIZE { &LARGE } else { &SMALL };
            [Policy::GENEROUS.sheaf_capacity(stride), policy.sheaf_capacity(stride)]
        };
        assert_eq!(capacities(64), [254, 254]);
        assert_eq!(capacities(128), [254, 254]);
        assert_eq!(capacities(256), [254, 124]);
        assert_eq!(capacities(4096), [32, 7]);
        assert_eq!(capacities(8192), [16, 4]);
        assert_eq!(capacities(28 << 10), [4, 2]);
        assert_eq!([&SMALL, &LARGE].map(|policy| policy.min_partial(8192)), [6, 1]);
        assert_eq!([128, 256, 8192].map(|stride| SMALL.this_cpu_capacity(254, stride)), [254, 60, 2]);
    }

    #[test]
    fn codes_lead_to_the_slots_of_their_caches() {
        assert!(ensure());
        let slots = OBJECTS.slots.load(Ordering::Relaxed);
        for class in 0..CLASSES {
            let code = Code::of_class(class).entry();
            assert_eq!(slots + 8 * usize::from(code), percpu::slot0(cache(class).unwrap().slot));
            assert_eq!(cache(class).unwrap().slabs.geometry.stride, size_of_class(class));
            assert_eq!(SIZE_CODE[size_of_class(class) / STEP], code);
        }
    }

    #[test]
    fn a_child_of_a_fork_amid_the_start_starts_again_and_finds_the_same_map() {
        assert!(ensure());
        let map =
            (OBJECTS.first.load(Ordering::Relaxed), OBJECTS.code_at(malloc(100) as usize) & !1, OBJECTS.is_in_place());
        // Other threads of this test wait meanwhile, as they would.
        BASE.leave_half_made();
        after_fork_in_child();
        assert!(ensure());
        let again =
            (OBJECTS.first.load(Ordering::Relaxed), OBJECTS.code_at(malloc(100) as usize) & !1, OBJECTS.is_in_place());
        assert_eq!(map, again);
    }

    #[test]
    fn threads_that_need_a_class_at_once_get_one_cache() {
        assert!(ensure());
        let barrier = std::sync::Barrier::new(8);
        let all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        barrier.wait();
                        (0..CLASSES)
                            .map(|class| core::ptr::from_ref(cache(class).unwrap()) as usize)
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(all.iter().all(|caches| *caches == all[0]));
        let mut slots: Vec<_> = Vec::new();
        crate::cache::registry::for_each(|cache| slots.push(cache.slot));
        slots.sort_unstable();
        assert!(slots.windows(2).all(|pair| pair[0] != pair[1]), "two caches in one slot");
        // As for who died between the two: the registry has a cache that is not known here.
        let place = CACHES[7].swap(core::ptr::null_mut(), Ordering::Relaxed);
        assert_eq!(core::ptr::from_ref(cache(7).unwrap()), place.cast_const());
    }

    #[test]
    fn every_size_has_the_code_of_its_class() {
        for size in 0..=MALLOC_MAX_CACHE_SIZE {
            // The text of `malloc` rounds like this.
            let code = SIZE_CODE[(size + 15) >> 4];
            assert_eq!(code, Code::of_class(class_of(size)).entry(), "size {size}");
        }
    }

    #[cfg(all(feature = "os", target_arch = "x86_64"))]
    #[test]
    fn each_cpu_has_the_entries_of_its_side() {
        use crate::percpu::area::SIZE_ENTRIES;
        assert!(ensure());
        for cpu in (0..PERCPU.cpus.load(Ordering::Relaxed)).map(crate::base::units::CpuId) {
            let table = PERCPU.slot(cpu, SIZE_ENTRIES as u16).cast::<u8>();
            let side = if cfg!(ashlar_unchecked) { 0 } else { PerCpu::side_of(cpu) };
            for (steps, code) in SIZE_CODE.iter().enumerate() {
                // SAFETY: in the committed area of the CPU; nobody writes it any more.
                assert_eq!(unsafe { table.add(steps).read() }, code | side, "{cpu:?}, {} bytes", steps * STEP);
            }
        }
    }

    #[test]
    fn the_map_knows_what_is_live_and_kfree_keeps_it_true() {
        for size in [1, 16, 100, 4096, 20_000, MALLOC_MAX_CACHE_SIZE] {
            let at = malloc(size);
            assert!(!at.is_null());
            assert_eq!(OBJECTS.code_at(at as usize) & !1, Code::of_class(class_of(size)).entry());
            assert_eq!(OBJECTS.code_at(at as usize + STEP), 0, "inside, or the next object, which is free");
            // SAFETY: live, freed once, by the other family's function.
            unsafe { crate::kfree(at) };
            assert_eq!(OBJECTS.code_at(at as usize), 0);
            let (one, other) = (malloc(size), malloc(size));
            // SAFETY: live, freed once.
            unsafe { crate::kfree_bulk(&[one, other]) };
            assert_eq!((OBJECTS.code_at(one as usize), OBJECTS.code_at(other as usize)), (0, 0));
        }
    }

    /// What nothing but a race between a look at the slot and the operation leads to.
    #[cfg(all(feature = "os", target_arch = "x86_64"))]
    #[test]
    fn single_objects_come_from_and_go_to_the_main_sheaf_on_both_sides() {
        assert!(ensure());
        let cache = cache(class_of(3072)).unwrap();
        for cpu in (0..64).filter(|&cpu| crate::base::os::pin_to(cpu).is_some()) {
            let top = |word: usize| PERCPU.slot(crate::base::units::CpuId(cpu), cache.slot).wrapping_add(word);
            let main = usize::from(PerCpu::side_of(crate::base::units::CpuId(cpu)));
            // SAFETY: words of a committed slot; no other test uses this class.
            let tops = || unsafe { [top(main).read_volatile(), top(1 - main).read_volatile()] };
            // An interrupt may cut a section off, and a reaper may come between.
            let right = (0..100).any(|_| {
                let some: [*mut u8; 6] = core::array::from_fn(|_| malloc(3072));
                // SAFETY: live, each freed once.
                some.into_iter().for_each(|at| unsafe { free(at) });
                let [main, spare] = tops();
                let object = percpu::pop(cache.slot);
                let popped = object != 0 && tops() == [main + 8, spare];
                popped && percpu::push(cache.slot, object) && tops() == [main, spare]
            });
            assert!(right || percpu::mode() != percpu::Mode::Rseq, "CPU {cpu}");
        }
    }

    /// The sheaves of such a cache are small ones at first.
    #[test]
    fn the_capacity_of_sheaves_can_be_raised_beyond_what_they_had_room_for() {
        assert!(ensure());
        let cache = cache(class_of(3584)).unwrap();
        for capacity in [254, 1, 126, 30, 62, 254] {
            engine::sheaves::set_sheaf_capacity(cache, capacity, 2);
            let mut all: Vec<usize> = (0..2000).map(|_| malloc(3584) as usize).collect();
            // SAFETY: each was allocated here and is freed once.
            all.iter().for_each(|&at| unsafe { free(at as *mut u8) });
            all.sort_unstable();
            assert!(
                all[0] != 0 && all.windows(2).all(|pair| pair[1] - pair[0] >= 3584),
                "{capacity}: an object had two owners"
            );
        }
    }

    #[test]
    fn slabs_of_large_classes_hold_several_objects_and_waste_little() {
        assert!(ensure());
        for class in 0..CLASSES {
            let cache = cache(class).unwrap();
            let geometry = cache.slabs.geometry;
            let slab = geometry.order.bytes();
            let used = usize::from(geometry.objects(geometry.order)) * geometry.stride;
            // The unused end is never touched, so it costs addresses, not memory.
            assert!((slab - used) * 3 <= slab, "{}: {} of {slab} bytes unused", cache.name(), slab - used);
        }
    }
}
