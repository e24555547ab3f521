//! The only door to atomics, locks and interior mutability, so that loom can stand behind it.
//!
//! Under `--cfg ashlar_loom` the types below are loom's and every access is explored; otherwise
//! they are `core`'s. Nothing else in the crate imports `core::sync::atomic`.
#![allow(unsafe_code, reason = "prefetches by an instruction")]

#[cfg(not(ashlar_loom))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(ashlar_loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(not(ashlar_loom))]
pub(crate) use lock::{Guard, Held, LockWord, SpinLock, Visit};
#[cfg(not(ashlar_loom))]
pub(crate) use set_once::SetOnce;

#[cfg(ashlar_loom)]
pub(crate) use loom_lock::{Guard, SpinLock};

pub(crate) mod gate;
#[cfg(not(ashlar_loom))]
mod lock;
#[cfg(not(ashlar_loom))]
mod set_once;

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

/// A number of the calling thread: no other thread of the process has it at the same time. A
/// multiple of 2, and not 0. A child of a fork has the number of the thread that forked; a child of
/// `vfork`, which runs while that thread waits, too.
#[cfg(not(ashlar_loom))]
#[inline(always)]
pub(crate) fn thread_id() -> usize {
    #[cfg(feature = "os")]
    return crate::base::os::thread_id::id();
    // One thread for one CPU.
    #[cfg(not(feature = "os"))]
    2
}

/// Adds one without a locked instruction: exact where one thread at a time does so, as under a
/// lock; elsewhere two that meet may count as one.
#[cfg(not(ashlar_loom))]
#[inline(always)]
pub(crate) fn bump(counter: &AtomicUsize) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// One step of waiting: spin first, then yield the CPU, then sleep; `waited` counts the steps so
/// far.
#[cfg(not(ashlar_loom))]
#[cold]
#[inline(never)]
pub(crate) fn relax(waited: u32) {
    if waited < 64 {
        core::hint::spin_loop();
    } else {
        #[cfg(feature = "os")]
        crate::base::os::back_off(waited - 64);
        #[cfg(not(feature = "os"))]
        core::hint::spin_loop();
    }
}

/// Waits while `busy`; true if it was. Not for ever, about a tenth of a second: who waits may be a
/// signal handler in the thread that is waited for.
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

/// A value that the boot sets before any other thread can look.
#[cfg(not(ashlar_loom))]
pub(crate) struct BootCell<T>(core::cell::UnsafeCell<Option<T>>);

// SAFETY: by the contract of `set` no thread looks before or while it is written.
#[cfg(not(ashlar_loom))]
unsafe impl<T: Send + Sync> Sync for BootCell<T> {}

#[cfg(not(ashlar_loom))]
impl<T: Copy> BootCell<T> {
    pub(crate) const fn new() -> Self {
        BootCell(core::cell::UnsafeCell::new(None))
    }

    /// The value; `None` before it is set.
    pub(crate) fn get(&self) -> Option<T> {
        // SAFETY: see the Sync impl.
        unsafe { *self.0.get() }
    }

    /// Sets the value.
    ///
    /// # Safety
    /// No other thread can reach the cell yet: it will be led to it by something that this thread
    /// publishes later.
    pub(crate) unsafe fn set(&self, value: T) {
        // SAFETY: by the caller's promise this thread has the cell to itself.
        unsafe { *self.0.get() = Some(value) };
    }
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

    /// Makes it, or waits until it is made; false when that failed, now or before. `make` must not
    /// come here again.
    pub(crate) fn ensure(&self, make: impl FnOnce() -> bool) -> bool {
        self.make(make, Self::FAILED)
    }

    /// As [`Self::ensure`], of what can be made twice: after a failure it is down again, and
    /// the next caller tries.
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

    /// In the child of a fork the thread that was making it may be gone, so the next caller makes it
    /// again. For what can be made twice.
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

/// Asks for the cache line of an address that will soon be read or written. A hint: any address may
/// be given.
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
