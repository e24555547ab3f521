//! A cell that is set at most once, and whose readers take no lock.
//!
//! Invariant: `place` holds a value exactly if `ready` is true, and neither changes after that
//! until the cell drops.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

use super::{AtomicBool, Ordering};

pub(crate) struct SetOnce<T> {
    ready: AtomicBool,
    place: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: the value is written once, by the contract of `set`, before `ready` is set with release
// ordering; all reads come after an acquire load of `ready`. So threads share the value by
// reference only, after one of them sent it.
unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}

impl<T> SetOnce<T> {
    pub(crate) const fn new() -> SetOnce<T> {
        SetOnce { ready: AtomicBool::new(false), place: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Returns the value; `None` before it is set.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: `ready` was set after the value was written, and nothing changes it after that.
        self.ready.load(Ordering::Acquire).then(|| unsafe { (*self.place.get()).assume_init_ref() })
    }

    /// Sets the value, or returns it if there is one.
    ///
    /// # Safety
    /// The caller holds a lock, the same one at every call for this cell.
    pub(crate) unsafe fn set(&self, value: T) -> Result<(), T> {
        if self.ready.load(Ordering::Relaxed) {
            return Err(value);
        }
        // SAFETY: no other thread writes, because of the lock, and none reads before `ready`.
        unsafe { (*self.place.get()).write(value) };
        self.ready.store(true, Ordering::Release);
        Ok(())
    }
}

impl<T> Drop for SetOnce<T> {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: there is a value, and nothing uses the cell after this.
            unsafe { self.place.get_mut().assume_init_drop() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SetOnce;
    use std::rc::Rc;

    #[test]
    fn the_first_value_stays_and_drops_with_the_cell() {
        let [one, two] = [Rc::new(1), Rc::new(2)];
        let cell = SetOnce::new();
        assert!(cell.get().is_none());
        // SAFETY: the cell is this thread's, which is as good as a lock.
        let set = |value| unsafe { cell.set(value) };
        assert_eq!(set(one.clone()), Ok(()));
        assert_eq!(set(two.clone()), Err(two.clone()));
        assert_eq!((cell.get(), Rc::strong_count(&one)), (Some(&one), 2));
        drop(cell);
        assert_eq!((Rc::strong_count(&one), Rc::strong_count(&two)), (1, 1));
    }
}
