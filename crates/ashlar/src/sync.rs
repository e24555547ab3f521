//! The only door to atomics, locks and interior mutability, so that loom can stand behind it.
//!
//! Under `--cfg ashlar_loom` the types below are loom's and every access is explored; otherwise they
//! are `core`'s. Nothing else in the crate imports `core::sync::atomic`.
#![allow(unsafe_code, reason = "the lock hands out references to the cell it guards")]

#[cfg(not(ashlar_loom))]
pub(crate) use core::sync::atomic::{
    AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
#[cfg(ashlar_loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(not(ashlar_loom))]
pub(crate) use lock::{Guard, SpinLock};

#[cfg(ashlar_loom)]
pub(crate) use loom_lock::{Guard, SpinLock};

#[cfg(not(ashlar_loom))]
mod lock {
    use super::{AtomicU32, AtomicUsize, Ordering};
    use core::cell::UnsafeCell;
    use core::ops::{Deref, DerefMut};

    /// A spin lock for short sections. It is taken by one `cmpxchg` and released by one plain store.
    ///
    /// A waiter spins a little, then yields, then sleeps, longer and longer: a holder that was
    /// preempted, or has a lower real-time priority than the waiter, gets to run. Nothing that runs
    /// under such a lock allocates, takes a signal-unsafe path or calls user code.
    ///
    /// Each lock counts how often it was taken: its holder adds one, by a load and a store beside the locked word.
    pub(crate) struct SpinLock<T> {
        locked: AtomicU32,
        taken: AtomicUsize,
        value: UnsafeCell<T>,
    }

    // SAFETY: the lock gives exclusive access to `T`, so sharing it needs only that `T` may move
    // between threads.
    unsafe impl<T: Send> Sync for SpinLock<T> {}

    impl<T> SpinLock<T> {
        pub(crate) const fn new(value: T) -> Self {
            SpinLock { locked: AtomicU32::new(0), taken: AtomicUsize::new(0), value: UnsafeCell::new(value) }
        }

        #[inline]
        pub(crate) fn lock(&self) -> Guard<'_, T> {
            if self.locked.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
                wait_for(&self.locked);
            }
            super::bump(&self.taken);
            Guard { lock: self }
        }

        /// Takes the lock if it is free; never waits.
        pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
            let free = self.locked.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
            free.then(|| {
                super::bump(&self.taken);
                Guard { lock: self }
            })
        }

        /// Takes the lock and forgets the guard: for fork handlers, which hold locks across `fork`.
        pub(crate) fn lock_raw(&self) {
            core::mem::forget(self.lock());
        }

        /// Whether somebody holds the lock at this moment. For observers: the answer may be old when it arrives.
        pub(crate) fn is_held(&self) -> bool {
            self.locked.load(Ordering::Relaxed) != 0
        }

        /// How often the lock was taken since [`Self::reset_taken`]; wraps around.
        pub(crate) fn taken(&self) -> usize {
            self.taken.load(Ordering::Relaxed)
        }

        /// Starts the count from zero.
        pub(crate) fn reset_taken(&self) {
            self.taken.store(0, Ordering::Relaxed);
        }

        /// The guarded value, for a thread that holds the lock by [`Self::lock_raw`].
        pub(crate) fn data_ptr(&self) -> *mut T {
            self.value.get()
        }

        /// Releases a lock taken by [`Self::lock_raw`].
        ///
        /// # Safety
        /// The calling thread (or, after fork, its copy in the child) holds the lock by `lock_raw`.
        pub(crate) unsafe fn unlock_raw(&self) {
            self.locked.store(0, Ordering::Release);
        }
    }

    /// Takes a lock that somebody else has. One function for the locks of all things.
    #[cold]
    #[inline(never)]
    fn wait_for(locked: &AtomicU32) {
        let mut waited = 0u32;
        loop {
            if locked.load(Ordering::Relaxed) == 0
                && locked.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            waited = waited.saturating_add(1);
            super::relax(waited);
        }
    }

    /// Exclusive access to what a [`SpinLock`] guards; released on drop.
    pub(crate) struct Guard<'a, T> {
        lock: &'a SpinLock<T>,
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;
        #[inline]
        fn deref(&self) -> &T {
            // SAFETY: the guard exists only while this thread holds the lock, so nobody else has a
            // reference to the value.
            unsafe { &*self.lock.value.get() }
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: as in `deref`, and `&mut self` makes this reference the only one through the guard.
            unsafe { &mut *self.lock.value.get() }
        }
    }

    impl<T> Drop for Guard<'_, T> {
        #[inline]
        fn drop(&mut self) {
            self.lock.locked.store(0, Ordering::Release);
        }
    }
}

#[cfg(ashlar_loom)]
mod loom_lock {
    /// loom's mutex under the same face as the real spin lock.
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

/// Adds one without a locked instruction: exact where one thread at a time does so, as under a lock; elsewhere two
/// that meet may count as one.
#[cfg(not(ashlar_loom))]
#[inline(always)]
pub(crate) fn bump(counter: &AtomicUsize) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// One step of waiting: spin first, then yield the CPU, then sleep; `waited` counts the steps so far.
#[cfg(not(ashlar_loom))]
pub(crate) fn relax(waited: u32) {
    if waited < 64 {
        core::hint::spin_loop();
    } else {
        #[cfg(feature = "os")]
        crate::os::back_off(waited - 64);
        #[cfg(not(feature = "os"))]
        core::hint::spin_loop();
    }
}

/// Waits while `busy`; true if it was. Not for ever, about a tenth of a second: who waits may be a signal handler in the thread that is
/// waited for.
#[cfg(not(ashlar_loom))]
pub(crate) fn wait_while(mut busy: impl FnMut() -> bool) -> bool {
    // Most of them sleep; where there is nothing to sleep with a step is a spin of 50 nanoseconds.
    const STEPS: u32 = if cfg!(feature = "os") { 200 } else { 1_000_000 };
    let mut waited = 0;
    while waited < STEPS && busy() {
        waited += 1;
        relax(waited);
    }
    waited > 0
}

/// Something that is made once, by whoever needs it first.
///
/// | state | meaning |
/// |---|---|
/// | down | it does not exist |
/// | making | one thread makes it; others wait |
/// | up | it exists, for ever |
/// | failed | memory for it was refused, for ever: of what cannot be made twice |
#[cfg(not(ashlar_loom))]
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

    /// Nobody has begun to make it.
    pub(crate) fn is_down(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::DOWN
    }

    /// Makes it, or waits until it is made; false when that failed, now or before. `make` must not come here again.
    pub(crate) fn ensure(&self, make: impl FnOnce() -> bool) -> bool {
        self.make(make, Self::FAILED)
    }

    /// As [`Self::ensure`], of what can be made twice: after a failure it is down again, and whoever comes next tries.
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
                // Whoever was waited for had no memory.
                _ => return false,
            }
        }
    }

    /// In the child of a fork the thread that was making it may be gone: whoever comes next does it again. For what can be made twice.
    pub(crate) fn after_fork_in_child(&self) {
        let _ = self.0.compare_exchange(Self::MAKING, Self::DOWN, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// As if a thread were making it that is gone.
    #[cfg(test)]
    pub(crate) fn leave_half_made(&self) {
        self.0.store(Self::MAKING, Ordering::Release);
    }
}

/// A bound that fast paths compare with, in two copies: for functions on their own, and for
/// *derived* forms.
///
/// A derived form is a function that has to call another one, which a program may replace: C++
/// demands that of most forms of `delete`. It may do the work itself only where nothing is
/// replaced. Its copy of the bound is 0, which sends every call to the other function, until
/// [`Self::open_derived`]. From then on both copies are equal, whichever thread raises the bound.
///
/// Proof: a thread that raises the bound stores it before it looks at the flag, and a thread that
/// opens sets the flag before it loads the bound. Both touch the flag by read-modify-write, so one
/// of the two sees what the other did before, and copies the bound. Bounds only grow, so copies are
/// made by `fetch_max`: a late copy of a smaller value changes nothing.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Bound {
    own: AtomicUsize,
    derived: AtomicUsize,
    /// 1 when derived forms may do the work themselves.
    open: AtomicUsize,
}

#[cfg_attr(not(all(target_arch = "x86_64", feature = "os")), allow(dead_code, reason = "no macro needs it"))]
impl Bound {
    /// Offsets of the two copies, for assembly.
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

    /// The bound of functions on their own.
    pub(crate) fn get(&self) -> usize {
        self.own.load(Ordering::Relaxed)
    }

    /// The bound of derived forms.
    #[cfg(any(test, ashlar_loom))]
    pub(crate) fn derived(&self) -> usize {
        self.derived.load(Ordering::Relaxed)
    }

    /// Raises the bound to `bound`, which is no smaller than before. What a thread needs that is
    /// below it was written before this call.
    pub(crate) fn raise(&self, bound: usize) {
        self.own.store(bound, Ordering::Release);
        if self.open.fetch_or(0, Ordering::AcqRel) != 0 {
            self.derived.fetch_max(bound, Ordering::Release);
        }
    }

    /// Lets derived forms do the work themselves, now and whenever the bound is raised.
    pub(crate) fn open_derived(&self) {
        self.open.fetch_or(1, Ordering::AcqRel);
        self.derived.fetch_max(self.own.load(Ordering::Acquire), Ordering::Release);
    }
}

/// Asks for the cache line of an address that will soon be read or written. A hint: any address may be given.
#[inline(always)]
pub(crate) fn prefetch(address: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing as far as the program can tell, and never faults.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(address as *const i8);
    }
    #[cfg(not(target_arch = "x86_64"))]
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
        assert!(again.is_up(), "what is made stays so");
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
