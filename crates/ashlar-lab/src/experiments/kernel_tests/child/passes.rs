//! The timed loops of the kernel's test module, generic over the system: compiled once for each, so
//! that no dynamic call stands between the loop and the allocator.
//!
//! The touches (one byte of the object, with the value of the original), the count and the order of
//! frees are those of the module. What differs: [`WARMING_PASSES`] passes that are not measured run
//! right before the measured one, on the same threads, because the systems take turns and each
//! would otherwise find its memory evicted by the others, or given back to the system while it sat
//! idle. What is measured is the steady state, for every system alike. `--first-pass` leaves those
//! passes out. After the measured pass of tests A and B another one looks at the memory.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use core::time::Duration;
use std::time::Instant;

use crate::experiments::kernel_tests::plan::protocol::Group;
use crate::kit::measure::{SpinBarrier, hide, ticks};
use crate::kit::memory::resident_kib;
use crate::systems::traits::{Handle, System};

const TOUCH_ALLOC: u8 = 22;
const TOUCH_FREE: u8 = 23;
const TOUCH_CONCURRENT_ALLOC: u8 = 14;
const TOUCH_CONCURRENT_FREE: u8 = 13;
const TOUCH_CONCURRENT_PAIR: u8 = 12;
const TOUCH_REMOTE_ALLOC: u8 = 17;
const TOUCH_REMOTE_FREE: u8 = 16;

/// The module's `v[]` of one thread. Relaxed accesses compile to the plain loads and stores of the
/// original; other threads look only after a barrier.
#[derive(Debug)]
pub(crate) struct Slots {
    objects: Box<[AtomicPtr<u8>]>,
    filled: AtomicUsize,
}

impl Slots {
    pub(crate) fn new(objects: usize) -> Self {
        // A dangling non-null value makes the pages of the array present before the clock runs.
        let absent = core::ptr::dangling_mut();
        Self { objects: (0..objects).map(|_| AtomicPtr::new(absent)).collect(), filled: AtomicUsize::new(0) }
    }
}

/// One pass as all its threads know it.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    pub(crate) group: Group,
    pub(crate) size: usize,
    /// One for each thread of the child.
    pub(crate) slots: &'a [Slots],
    /// For as many threads as the group has.
    pub(crate) barrier: &'a SpinBarrier,
    /// Passes that warm up, at most.
    pub(crate) warming: usize,
    /// Set when the system is warm enough.
    pub(crate) warm: &'a AtomicBool,
}

/// What one thread measured. `complete` is false when the system returned null.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    pub(crate) phase1: u64,
    pub(crate) phase2: u64,
    /// Passes that were run for this, those that are not measured included.
    pub(crate) passes: usize,
    /// Of [`Group::AllocFree`]: resident KiB of the process with all objects allocated, and with
    /// all freed.
    pub(crate) resident: Option<[i64; 2]>,
    pub(crate) complete: bool,
}

/// Passes that warm a system up before the measured one: so many at most, at least
/// [`FEWEST_WARMING_PASSES`], and no more once those after the first took [`WARMING_TIME`].
pub(crate) const WARMING_PASSES: usize = 12;
const FEWEST_WARMING_PASSES: usize = 2;
const WARMING_TIME: Duration = Duration::from_millis(3);

/// Runs the part of thread `me`: some passes unmeasured, then one measured.
pub(crate) fn run<S: System>(system: &S, me: usize, threads: usize, pass: &Pass<'_>) -> Ticks {
    let mut complete = true;
    let mut passes = 1;
    let mut start = Instant::now();
    for done in 1..=pass.warming {
        complete &= once(system, me, threads, pass).complete;
        passes += 1;
        if done == 1 {
            // Where memory was given back in the meantime, the first pass is all page faults.
            start = Instant::now();
        }
        // One thread decides for all, so that all run the same passes.
        if me == 0 && done >= FEWEST_WARMING_PASSES && start.elapsed() > WARMING_TIME {
            pass.warm.store(true, Ordering::Relaxed);
        }
        pass.barrier.wait();
        if pass.warm.load(Ordering::Relaxed) {
            break;
        }
    }
    let measured = once(system, me, threads, pass);
    complete &= measured.complete;
    let mut resident = None;
    if pass.group == Group::AllocFree {
        resident = held(system, me, pass);
        passes += 1;
    }
    Ticks { passes, complete, resident, ..measured }
}

/// Runs a pass of tests A and B that is not timed, and returns the resident KiB with all objects
/// allocated and with all freed.
fn held<S: System>(system: &S, me: usize, pass: &Pass<'_>) -> Option<[i64; 2]> {
    let mut handle = system.handle(me, pass.size);
    let own = &pass.slots[me];
    let complete = fill(&mut handle, own, TOUCH_ALLOC);
    let full = resident_kib();
    // SAFETY: `own` was filled above by this handle, and only this thread takes from it.
    unsafe { drain(&mut handle, own, TOUCH_FREE) };
    let freed = resident_kib();
    complete.then_some([full?, freed?])
}

fn once<S: System>(system: &S, me: usize, threads: usize, pass: &Pass<'_>) -> Ticks {
    let mut handle = system.handle(me, pass.size);
    let own = &pass.slots[me];
    let wanted = own.objects.len();
    pass.barrier.wait();
    let start = ticks();
    let mut complete = match pass.group {
        Group::AllocFree => fill(&mut handle, own, TOUCH_ALLOC),
        Group::Concurrent => fill(&mut handle, own, TOUCH_CONCURRENT_ALLOC),
        Group::Remote if me > 0 => fill(&mut handle, own, TOUCH_REMOTE_ALLOC),
        Group::Remote => true,
        Group::Pairs => pairs(&mut handle, wanted),
        Group::ConcurrentPairs => pairs_touched(&mut handle, wanted),
    };
    let phase1 = ticks() - start;
    pass.barrier.wait();
    let start = ticks();
    match pass.group {
        // SAFETY: `own` was filled above by this handle, and only this thread takes from it.
        Group::AllocFree => unsafe { drain(&mut handle, own, TOUCH_FREE) },
        // SAFETY: as above.
        Group::Concurrent => unsafe { drain(&mut handle, own, TOUCH_CONCURRENT_FREE) },
        Group::Remote if me == 0 => {
            for other in &pass.slots[1..threads] {
                // SAFETY: `other` was filled by its thread from a handle of the same system and
                // size before the barrier, and no thread but this one takes from it: the other
                // threads have no part in phase 2.
                unsafe { drain(&mut handle, other, TOUCH_REMOTE_FREE) };
            }
        }
        Group::Remote | Group::Pairs | Group::ConcurrentPairs => {}
    }
    let phase2 = ticks() - start;
    // No thread goes on while another one is still timed.
    pass.barrier.wait();
    complete &= wanted > 0;
    Ticks { phase1, phase2, passes: 1, resident: None, complete }
}

/// Allocates one object for each slot, touches it and stores it. False when an allocation failed.
#[inline(never)]
fn fill<H: Handle>(handle: &mut H, slots: &Slots, touch: u8) -> bool {
    let mut filled = 0;
    for slot in &slots.objects {
        let object = hide(handle.alloc());
        if object.is_null() {
            break;
        }
        // SAFETY: the system just returned `object`, which has at least one byte and belongs to
        // this thread.
        unsafe { object.write_volatile(touch) };
        slot.store(object, Ordering::Relaxed);
        filled += 1;
    }
    slots.filled.store(filled, Ordering::Relaxed);
    filled == slots.objects.len()
}

/// Touches and frees what `fill` stored, in the same order.
///
/// # Safety
/// The slots were filled through a handle of the same system and size, that filling happens before
/// this call, and no other thread takes from them.
#[inline(never)]
unsafe fn drain<H: Handle>(handle: &mut H, slots: &Slots, touch: u8) {
    let filled = slots.filled.load(Ordering::Relaxed);
    for slot in &slots.objects[..filled] {
        let object = slot.load(Ordering::Relaxed);
        // SAFETY: the slot holds a live object, by the contract of this function, and each slot is
        // taken once.
        unsafe {
            object.write_volatile(touch);
            handle.free(object);
        }
    }
    slots.filled.store(0, Ordering::Relaxed);
}

/// Allocates and frees at once, without a touch. False when an allocation failed.
#[inline(never)]
fn pairs<H: Handle>(handle: &mut H, count: usize) -> bool {
    for _ in 0..count {
        let object = hide(handle.alloc());
        if object.is_null() {
            return false;
        }
        // SAFETY: `object` is what this handle just returned, and it is freed once.
        unsafe { handle.free(object) };
    }
    true
}

/// Allocates, touches and frees at once. False when an allocation failed.
#[inline(never)]
fn pairs_touched<H: Handle>(handle: &mut H, count: usize) -> bool {
    for _ in 0..count {
        let object = hide(handle.alloc());
        if object.is_null() {
            return false;
        }
        // SAFETY: `object` is what this handle just returned: at least one byte, ours alone, freed
        // once.
        unsafe {
            object.write_volatile(TOUCH_CONCURRENT_PAIR);
            handle.free(object);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems::traits::Setup;

    /// malloc, which counts its calls.
    struct Counting(AtomicUsize);

    impl System for Counting {
        type Handle<'a> = &'a Self;

        fn new(_setup: &Setup, _threads: usize) -> Result<Self, String> {
            Ok(Self(AtomicUsize::new(0)))
        }

        fn handle(&self, _me: usize, _size: usize) -> &Self {
            self
        }
    }

    impl Handle for &Counting {
        fn alloc(&mut self) -> *mut u8 {
            self.0.fetch_add(1, Ordering::Relaxed);
            // SAFETY: malloc takes any size.
            unsafe { libc::malloc(64) }.cast()
        }

        unsafe fn free(&mut self, object: *mut u8) {
            // SAFETY: from `alloc`, freed once, as the contract of `Handle::free` says.
            unsafe { libc::free(object.cast()) }
        }
    }

    /// Runs a pass of 100 objects on one thread. Returns its figures and the allocations.
    fn passed(group: Group, warming: usize) -> (Ticks, usize) {
        let system = Counting(AtomicUsize::new(0));
        let (barrier, warm) = (SpinBarrier::new(1, false), AtomicBool::new(false));
        let pass = Pass { group, size: 64, slots: &[Slots::new(100)], barrier: &barrier, warming, warm: &warm };
        let ticks = run(&system, 0, 1, &pass);
        (ticks, system.0.into_inner())
    }

    #[test]
    fn a_first_pass_comes_first() {
        let (ticks, allocations) = passed(Group::Pairs, 0);
        assert!(ticks.complete && ticks.passes == 1 && allocations == 100, "{ticks:?}, {allocations}");
        let (ticks, allocations) = passed(Group::Pairs, WARMING_PASSES);
        assert!(ticks.complete && ticks.passes > FEWEST_WARMING_PASSES, "{ticks:?}");
        assert_eq!(allocations, 100 * ticks.passes);
        assert_eq!(ticks.resident, None, "memory is a matter of A and B");
    }

    #[test]
    fn the_pass_that_looks_at_the_memory_comes_after_the_measured_one() {
        let (ticks, allocations) = passed(Group::AllocFree, 0);
        assert!(ticks.complete && ticks.passes == 2 && allocations == 200, "{ticks:?}, {allocations}");
        assert!(ticks.resident.is_some_and(|kib| kib.into_iter().all(|kib| kib > 0)), "{ticks:?}");
    }
}
