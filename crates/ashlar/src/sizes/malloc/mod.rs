//! The size classes of malloc, finer than kmalloc's, and their caches.
//!
//! Sizes up to 28 KiB come from caches named `malloc-16` to `malloc-28672` (see [`classes`]). A
//! cache is created when its class is first used, so a program has those that it needs. Larger
//! sizes are large objects ([`super::large`]).
//!
//! All these caches are *tracked*: the object map has an entry for each live object. They are also
//! *sided*, as the entry points in `faces::malloc::entry` explain.
#![allow(unsafe_code, reason = "caches are found by their address")]
#![cfg_attr(
    not(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))),
    allow(unreachable_pub, reason = "no macro needs them")
)]

pub(crate) mod classes;

use core::ptr::NonNull;

use super::large;
use super::object_map::{self, OBJECTS};
use crate::base::sync::{AtomicPtr, AtomicUsize, Bound, Ordering};
use crate::base::units::PAGE_SIZE;
use crate::cache::{CacheArgs, create_raw};
use crate::engine::route::{inits_on_alloc, is_hardened};
use crate::engine::{self, Policy, RawCache};
use crate::pages::direct::Fill;
use crate::pages::memmap::{FastFrees, MEMMAP};
use crate::percpu;
use crate::percpu::area::{CODE_0_SLOT, PERCPU, PerCpu, SIDED_SLOTS, SIZE_ENTRIES_BYTES, SLOT_BYTES};
use crate::slab::OrderRule;
use classes::{CLASSES, Code, MALLOC_MAX_CACHE_SIZE, NAME, STEP, class_of, name_of_class, size_of_class};

/// The bound of sizes that the fast path of `malloc` serves. It is 0 until the caches may be
/// created, because no section may run before start-up. The derived form is the one of C++'s
/// `new[]`.
#[repr(transparent)]
#[derive(Debug)]
pub struct Limit(Bound);

/// The one limit of the process.
pub static LIMIT: Limit = Limit(Bound::new());

impl Limit {
    /// Opens the fast path for sizes up to `most`.
    fn open(&self, most: usize) {
        self.0.raise(most + 1);
    }

    /// Closes the fast path, while a profile counts the calls.
    #[cfg(feature = "os")]
    #[place(cold)]
    pub(super) fn close(&self) {
        self.0.close();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.get() != 0
    }

    /// Opens the fast paths of functions that contain the text of `malloc` with the bound of
    /// derived forms.
    #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(crate) fn open_derived(&self) {
        self.0.open_derived();
    }
}

/// The bound of sizes that the copy of the fast path with a count serves; 0 while nothing counts.
#[cfg(feature = "os")]
pub(crate) static COUNTED: AtomicUsize = AtomicUsize::new(0);

/// Has the copy of the fast path with a count serve sizes below `bound`.
#[cfg(feature = "os")]
#[place(cold)]
pub(super) fn count_below(bound: usize) {
    COUNTED.store(bound, Ordering::Release);
}

/// 1 once malloc has started, if it has a fast path.
static FAST: AtomicUsize = AtomicUsize::new(0);

/// The bound of sizes that `calloc` clears. It is 0 where memory of caches is zero anyway.
pub(crate) static CLEARED: AtomicUsize = AtomicUsize::new(MALLOC_MAX_CACHE_SIZE + 1);

static CACHES: [AtomicPtr<RawCache>; CLASSES] = [const { AtomicPtr::new(core::ptr::null_mut()) }; CLASSES];
/// Offset of the slot that a code of 0 would have: eight times a code leads from there to the slot
/// of its cache.
pub(crate) const SLOT_OF_CODE_0: usize = SIDED_SLOTS - 8 * Code::of_class(0).entry() as usize;
const _: () = assert!(SLOT_OF_CODE_0 == CODE_0_SLOT as usize);
/// The entry of the object map for each size up to 28 KiB, on CPUs of side 0, by the size in steps
/// of 16 bytes, rounded up. All classes are multiples of 16 bytes, so sizes of one step have one
/// class. The table takes 2 KiB, where one by size would take 28, and a cache line serves 64 sizes.
/// Each CPU's area has a copy, with the entries of the CPU's side.
pub(crate) static SIZE_CODE: [u8; SIZE_ENTRIES_BYTES] = {
    assert!(SIZE_ENTRIES_BYTES == MALLOC_MAX_CACHE_SIZE / STEP + 1);
    let mut table = [0; SIZE_ENTRIES_BYTES];
    let mut steps = 0;
    while steps < table.len() {
        table[steps] = Code::of_class(class_of(steps * STEP)).entry();
        steps += 1;
    }
    table
};

/// Objects above this size lie in slabs of up to [`LARGE_CLASS_ORDER`]. So a slab holds several of
/// them, but few enough to become empty and go to another cache.
const LARGE_CLASS: usize = 4 << 10;
const LARGE_CLASS_ORDER: u8 = 4;

/// Largest stride of objects whose slabs are kept by CPU: four objects a page. A cache line of the
/// object map stands for a page at least, so larger objects share hardly any.
const BY_CPU_STRIDE: usize = PAGE_SIZE / 4;

/// What the policies of all classes have in common. Their caches keep less than others, because a
/// program uses dozens of them at once, each with two sheaves on each CPU, and no other cache can
/// have what a sheaf holds. Sheaves for 31 KiB of objects, with half of that for the CPU's own,
/// cost little time as long as there are few objects; those for 64 KiB took a tenth of a program's
/// memory (docs/why.md). A cache of many objects has larger sheaves. Objects of up to 128 bytes are
/// excepted: programs have most of these, and CPUs hand most of these to each other.
const OF_SIZES: Policy = Policy {
    family: 2,
    tracked: true,
    sided: true,
    by_cpu_stride: BY_CPU_STRIDE,
    full_sheaf_stride: 128,
    sheaf_bytes: 512 << 10,
    other_cpu_bytes: 31 << 10,
    this_cpu_bytes: 15 << 10,
    refill_share: Some(8),
    guarded: true,
    when_debugged: Some(&DEBUGGED),
    ..Policy::GENEROUS
};
/// The policy of debugged classes. Their engine knows which objects are in use, and for how many
/// bytes: so they have no entry in the map, and every call takes the path of foreign objects.
static DEBUGGED: Policy = Policy { family: 2, by_address: true, sided: true, guarded: true, ..Policy::GENEROUS };
/// The policy of objects of up to a page. It is a static, because the linker lays constants apart.
static SMALL: Policy = OF_SIZES;
/// The policy of objects above a page. A program has few of each size, and fills them for longer
/// than it takes to allocate them.
static LARGE: Policy = Policy { min_partial: Some(1), ..OF_SIZES };
/// Creates the object map and opens the fast paths. Returns false if memory for the map is refused.
/// The child of a fork that interrupted this call repeats it, which has no further effect.
#[place(cold)]
pub(crate) fn start() -> bool {
    if !object_map::start() {
        return false;
    }
    // The entry points serve sheaves, and assume the place of the map. Without both, every call
    // must take the slow path, and does so at once.
    let fast = has_fast_path();
    let frees = if fast { MEMMAP.fast_frees() } else { FastFrees::None };
    OBJECTS.open(percpu::slot0(0) + SLOT_OF_CODE_0, frees);
    if fast {
        PERCPU.set_size_entries(&SIZE_CODE);
        FAST.store(1, Ordering::Release);
        LIMIT.open(MALLOC_MAX_CACHE_SIZE);
    }
    // Debugged caches may hand out poison.
    if inits_on_alloc() && !crate::cache::settings::has_debugging() {
        CLEARED.store(0, Ordering::Relaxed);
    }
    true
}

/// Returns whether the entry points serve malloc by sheaves: the engine has some, no option asks
/// for more than they do, and the map lies at the place that they assume.
#[place(cold)]
fn has_fast_path() -> bool {
    crate::cache::settings::options().engine.has_sheaves() && !is_hardened() && OBJECTS.is_in_place()
}

/// Returns whether malloc has started, and has a fast path.
#[cfg(feature = "os")]
#[place(cold)]
pub(super) fn may_open_fast_path() -> bool {
    FAST.load(Ordering::Acquire) != 0
}

/// Opens the fast path of malloc again, which was closed by who diverts calls.
#[cfg(feature = "os")]
#[place(cold)]
pub(super) fn open_fast_path() {
    LIMIT.open(MALLOC_MAX_CACHE_SIZE);
}

/// Returns the cache of a class, which is created when the class is first used: most programs use
/// few classes, and each cache takes a page's share of metadata. The fast paths need no test for
/// that, because the slot of a cache that does not exist has no sheaf. `None` when memory for it is
/// refused; the next call tries again.
#[inline]
pub(crate) fn cache(class: usize) -> Option<&'static RawCache> {
    // SAFETY: what is stored here is a cache of the registry, which is never destroyed.
    unsafe { CACHES[class].load(Ordering::Acquire).as_ref() }.or_else(|| create_cache(class))
}

/// Creates the cache of a class. Threads that need it at the same time get the same one, because
/// each class has a slot set aside, and the registry makes one cache for a slot.
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
    let policy: &'static Policy = if size > PAGE_SIZE { &LARGE } else { &SMALL };
    let slot = (SIDED_SLOTS + class * SLOT_BYTES) as u16;
    let raw = create_raw(name, size, &args, policy, Some(slot)).ok()?;
    CACHES[class].store(core::ptr::from_ref(raw).cast_mut(), Ordering::Release);
    Some(raw)
}

/// Returns the cache of an object whose entry in the map has this code.
#[inline]
pub(crate) fn cache_of(code: Code) -> &'static RawCache {
    // SAFETY: only an allocation from a cache enters the code of its class, so the cache exists; it
    // is never destroyed. The hand-over of the object orders its creation before this load.
    unsafe { &*CACHES[code.class()].load(Ordering::Acquire) }
}

/// Allocates an object of a class for `size` bytes, and enters it in the map if the class has one.
/// Returns `None` without memory. If there are free pages, but no memory for the cache of the
/// class, allocates a large object instead. That happens in a program that reached its limit and
/// then freed much.
pub(crate) fn alloc(class: usize, size: usize) -> Option<NonNull<u8>> {
    let Some(cache) = cache(class) else {
        return large::alloc(size_of_class(class), PAGE_SIZE, Fill::Any);
    };
    let object = NonNull::new(engine::alloc_of_class(cache, size))?;
    if !cache.policy.tracked {
        return Some(object);
    }
    let entry = Code::of_class(class).entry();
    OBJECTS.enter(object.as_ptr() as usize, entry | PerCpu::side_of(percpu::this_cpu()));
    Some(object)
}

/// Forgets the cache of a class, as if a thread had died between its creation and the store.
#[cfg(test)]
pub(crate) fn forget_cache(class: usize) -> *const RawCache {
    CACHES[class].swap(core::ptr::null_mut(), Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_of_larger_objects_have_smaller_sheaves() {
        let capacities = |stride| {
            let policy = if stride > PAGE_SIZE { &LARGE } else { &SMALL };
            [Policy::GENEROUS.sheaf_capacity(stride), policy.sheaf_capacity(stride)]
        };
        assert_eq!(capacities(64), [254, 254]);
        assert_eq!(capacities(128), [254, 254]);
        assert_eq!(capacities(256), [254, 126]);
        assert_eq!(capacities(4096), [32, 126]);
        assert_eq!(capacities(8192), [16, 64]);
        assert_eq!(capacities(28 << 10), [4, 18]);
        assert_eq!([&SMALL, &LARGE].map(|policy| policy.min_partial(8192)), [6, 1]);
        assert_eq!([128, 256, 8192].map(|stride| SMALL.this_cpu_capacity(stride)), [usize::MAX, 60, 4]);
        assert_eq!([128, 256, 8192].map(|stride| SMALL.other_cpu_capacity(stride)), [usize::MAX, 124, 4]);
    }

    #[test]
    fn every_size_has_the_code_of_its_class() {
        for size in 0..=MALLOC_MAX_CACHE_SIZE {
            // The text of `malloc` rounds like this.
            let code = SIZE_CODE[(size + 15) >> 4];
            assert_eq!(code, Code::of_class(class_of(size)).entry(), "size {size}");
        }
    }
}
