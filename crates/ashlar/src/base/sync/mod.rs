//! Atomics, locks and interior mutability. Nothing else in the crate imports `core::sync::atomic`.
//!
//! Under `--cfg ashlar_loom` these types are loom's, which explores the interleavings of all
//! accesses. Otherwise they are `core`'s.
#![allow(unsafe_code, reason = "interior mutability, and the prefetch instruction")]

#[cfg(not(ashlar_loom))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(ashlar_loom)]
pub(crate) use loom::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

pub(crate) use boot_cell::BootCell;
#[cfg(not(ashlar_loom))]
pub(crate) use lock::{Guard, Held, LockWord, SpinLock, Visit};
#[cfg(not(ashlar_loom))]
pub(crate) use set_once::SetOnce;

#[cfg(ashlar_loom)]
pub(crate) use loom_lock::{Guard, SpinLock};

mod boot_cell;
pub(crate) mod gate;
#[cfg(any(feature = "os", ashlar_loom))]
pub(crate) mod life;
#[cfg(not(ashlar_loom))]
mod lock;
#[cfg(not(any(feature = "os", ashlar_loom)))]
pub(crate) mod section;
/// Linux may preempt the holder of a lock, and interrupt handlers are not ours.
#[cfg(any(feature = "os", ashlar_loom))]
pub(crate) mod section {
    #[inline(always)]
    pub(crate) fn enter() {}
    #[inline(always)]
    pub(crate) fn leave() {}
}
#[cfg(not(ashlar_loom))]
mod set_once;

#[cfg(ashlar_loom)]
mod loom_lock {
    /// loom's mutex with the interface of the real spin lock.
    pub(crate) struct SpinLock<T>(loom::sync::Mutex<T>);
    pub(crate) type Guard<'a, T> = loom::sync::MutexGuard<'a, T>;

    impl<T> SpinLock<T> {
        pub(crate) fn new(value: T) -> Self {
            SpinLock(loom::sync::Mutex::new(value))
        }
        pub(crate) fn lock(&self) -> Guard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

/// Returns a number of the calling thread: even, not 0, and unique among the live threads of the
/// process. The child of a fork has the number of the thread that forked. So has a child of
/// `vfork`, which runs while that thread is suspended.
#[cfg(not(ashlar_loom))]
#[inline(always)]
pub(crate) fn thread_id() -> usize {
    #[cfg(feature = "os")]
    return crate::base::os::thread_id::id();
    // Without a kernel below there is one thread, on one CPU.
    #[cfg(not(feature = "os"))]
    section::platform().map_or(2, |platform| platform.this_thread())
}

/// Adds one without a locked instruction. Exact if one thread at a time does so, for example under
/// a lock. Otherwise two concurrent calls may count as one.
#[inline(always)]
pub(crate) fn bump(counter: &AtomicUsize) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// A number that may be behind the truth. Nothing that must be right rests on it, so no model
/// explores its accesses.
pub(crate) struct Hint(core::sync::atomic::AtomicUsize);

impl Hint {
    pub(crate) const fn new(value: usize) -> Hint {
        Hint(core::sync::atomic::AtomicUsize::new(value))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> usize {
        self.0.load(core::sync::atomic::Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, value: usize) {
        self.0.store(value, core::sync::atomic::Ordering::Relaxed);
    }
}

/// Waits one step: spins first, then yields the CPU, then sleeps. `waited` is the number of steps
/// so far.
#[cfg(not(ashlar_loom))]
#[cold]
#[inline(never)]
pub(crate) fn relax(waited: u32) {
    #[cfg(not(feature = "os"))]
    if let Some(platform) = section::platform() {
        return platform.relax();
    }
    if waited < 64 {
        core::hint::spin_loop();
    } else {
        #[cfg(feature = "os")]
        crate::base::os::back_off(waited - 64);
        #[cfg(not(feature = "os"))]
        core::hint::spin_loop();
    }
}

/// Waits while `busy` returns true, for about a tenth of a second at most. Returns true if it
/// waited. The wait is bounded, because the caller may be a signal handler in the thread it waits
/// for.
#[cfg(not(ashlar_loom))]
pub(crate) fn wait_while(mut busy: impl FnMut() -> bool) -> bool {
    // With an operating system most steps sleep. Otherwise a step is a spin of about 50
    // nanoseconds.
    const STEPS: u32 = if cfg!(feature = "os") { 200 } else { 1_000_000 };
    let mut waited = 0;
    while waited < STEPS && busy() {
        waited += 1;
        relax(waited);
    }
    waited > 0
}

/// Initialises something once, in the thread that first needs it.
///
/// | state | meaning |
/// |---|---|
/// | down | not initialised |
/// | making | one thread initialises it; other threads wait |
/// | up | initialised, permanently |
/// | failed | memory for it was refused, permanently; only if a second attempt is not possible |
pub(crate) struct Once(AtomicU32);

#[cfg(not(ashlar_loom))]
impl Once {
    const DOWN: u32 = 0;
    const MAKING: u32 = 1;
    const UP: u32 = 2;
    const FAILED: u32 = 3;

    pub(crate) const fn new() -> Once {
        Once(AtomicU32::new(Self::DOWN))
    }

    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::UP
    }

    /// Returns whether no thread has begun the initialisation.
    pub(crate) fn is_down(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::DOWN
    }

    /// Initialises by `make`, or waits for the thread that does. Returns false if the
    /// initialisation failed, now or before. `make` must not call this function again.
    pub(crate) fn ensure(&self, make: impl FnOnce() -> bool) -> bool {
        self.make(make, Self::FAILED)
    }

    /// As [`Self::ensure`], but if `make` fails, the state is down again and the next caller tries.
    pub(crate) fn ensure_or_again(&self, make: impl FnOnce() -> bool) -> bool {
        self.make(make, Self::DOWN)
    }

    fn make(&self, make: impl FnOnce() -> bool, failed: u32) -> bool {
        if self.0.compare_exchange(Self::DOWN, Self::MAKING, Ordering::Acquire, Ordering::Acquire).is_ok() {
            let made = make();
            self.0.store(if made { Self::UP } else { failed }, Ordering::Release);
            return made;
        }
        let mut waited = 0u32;
        loop {
            match self.0.load(Ordering::Acquire) {
                Self::UP => return true,
                Self::MAKING => {
                    waited = waited.saturating_add(1);
                    relax(waited);
                }
                // The thread that was initialising ran out of memory.
                _ => return false,
            }
        }
    }

    /// Resets the state in the child of a fork, so that the next caller initialises again. The
    /// thread that was initialising may not exist in the child. Only if a second attempt is
    /// possible.
    pub(crate) fn after_fork_in_child(&self) {
        let _ = self.0.compare_exchange(Self::MAKING, Self::DOWN, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Puts the state to "making", as if a thread had vanished during the initialisation.
    #[cfg(test)]
    pub(crate) fn leave_half_made(&self) {
        self.0.store(Self::MAKING, Ordering::Release);
    }
}

/// A bound that fast paths compare with, in two copies: one for direct functions, one for *derived*
/// functions.
///
/// A derived function must call another function that a program may replace. C++ demands that of
/// most forms of `delete`. A derived function may do the work itself only if nothing is replaced.
/// Its copy of the bound is 0, which sends every call to the other function, until
/// [`Self::open_derived`]. From then on both copies are equal, whichever thread raises the bound.
///
/// Proof: a thread that raises the bound stores it, then reads the flag. A thread that opens sets
/// the flag, then loads the bound. Both access the flag by read-modify-write operations, so at
/// least one of the two sees the other's store and copies the bound. Bounds only grow and are
/// copied by `fetch_max`, so a late copy of a smaller value changes nothing.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Bound {
    own: AtomicUsize,
    derived: AtomicUsize,
    /// 1 if derived functions may do the work themselves.
    open: AtomicUsize,
}

#[cfg_attr(
    not(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))),
    allow(dead_code, reason = "no macro needs it")
)]
impl Bound {
    /// Offset of the direct functions' copy, for assembly.
    pub(crate) const OWN: usize = core::mem::offset_of!(Bound, own);
    pub(crate) const DERIVED: usize = core::mem::offset_of!(Bound, derived);

    #[cfg(not(ashlar_loom))]
    pub(crate) const fn new() -> Bound {
        Bound { own: AtomicUsize::new(0), derived: AtomicUsize::new(0), open: AtomicUsize::new(0) }
    }

    #[cfg(ashlar_loom)]
    pub(crate) fn new() -> Bound {
        Bound { own: AtomicUsize::new(0), derived: AtomicUsize::new(0), open: AtomicUsize::new(0) }
    }

    /// Returns the bound of direct functions.
    pub(crate) fn get(&self) -> usize {
        self.own.load(Ordering::Relaxed)
    }

    /// Returns the bound of derived functions.
    #[cfg(any(test, ashlar_loom))]
    pub(crate) fn derived(&self) -> usize {
        self.derived.load(Ordering::Relaxed)
    }

    /// Raises the bound to `bound`, which is at least the old one. Data that a thread needs for
    /// values below it must be written before this call.
    pub(crate) fn raise(&self, bound: usize) {
        self.own.store(bound, Ordering::Release);
        if self.open.fetch_or(0, Ordering::AcqRel) != 0 {
            self.derived.fetch_max(bound, Ordering::Release);
        }
    }

    /// Sets the bound to 0, until it is raised again.
    #[cfg(feature = "os")]
    #[place(cold)]
    pub(crate) fn close(&self) {
        self.own.store(0, Ordering::Release);
        self.derived.store(0, Ordering::Release);
    }

    /// Lets derived functions do the work themselves, from now on and after each raise of the
    /// bound.
    pub(crate) fn open_derived(&self) {
        self.open.fetch_or(1, Ordering::AcqRel);
        self.derived.fetch_max(self.own.load(Ordering::Acquire), Ordering::Release);
    }
}

/// Prefetches the cache line of an address that will soon be accessed. Any address is allowed.
#[inline(always)]
pub(crate) fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no visible effect and never faults.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address as *const i8);
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
    use super::{Bound, Once};

    #[test]
    fn derived_forms_have_no_bound_before_they_are_opened_and_the_same_after() {
        let bound = Bound::new();
        bound.raise(5);
        assert_eq!((bound.get(), bound.derived()), (5, 0));
        bound.open_derived();
        assert_eq!((bound.get(), bound.derived()), (5, 5));
        bound.raise(9);
        assert_eq!((bound.get(), bound.derived()), (9, 9));
        bound.open_derived();
        assert_eq!((bound.get(), bound.derived()), (9, 9));
        let early = Bound::new();
        early.open_derived();
        assert_eq!((early.get(), early.derived()), (0, 0));
        early.raise(7);
        assert_eq!((early.get(), early.derived()), (7, 7));
    }

    #[test]
    fn what_is_made_once_is_made_once_and_what_failed_only_if_it_can_be_made_again() {
        let mut made = 0;
        let once = Once::new();
        assert!(once.is_down() && !once.is_up());
        for _ in 0..2 {
            assert!(once.ensure(|| {
                made += 1;
                true
            }));
        }
        assert!(made == 1 && once.is_up() && !once.is_down());

        let failed = Once::new();
        assert!(!failed.ensure(|| false) && !failed.ensure(|| true) && !failed.is_up());
        let again = Once::new();
        assert!(!again.ensure_or_again(|| false) && again.is_down());
        assert!(again.ensure_or_again(|| true) && again.is_up());

        again.after_fork_in_child();
        assert!(again.is_up(), "the state up survives a fork");
        again.leave_half_made();
        again.after_fork_in_child();
        assert!(again.is_down());
    }

    #[test]
    fn those_who_come_meanwhile_wait() {
        let once = Once::new();
        let count = super::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    assert!(once.ensure(|| {
                        std::thread::sleep(core::time::Duration::from_millis(20));
                        count.fetch_add(1, super::Ordering::Relaxed) == 0
                    }));
                    assert_eq!(count.load(super::Ordering::Relaxed), 1);
                });
            }
        });
    }
}
