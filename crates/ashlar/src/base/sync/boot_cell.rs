//! [`BootCell`]: a value that start-up sets.
#![allow(unsafe_code, reason = "interior mutability")]

/// A value that start-up sets before another thread can read it.
pub(crate) struct BootCell<T>(core::cell::UnsafeCell<Option<T>>);

// SAFETY: by the contract of `set`, no other thread reads the value before or while it is written.
unsafe impl<T: Send + Sync> Sync for BootCell<T> {}

impl<T: Copy> BootCell<T> {
    pub(crate) const fn new() -> Self {
        BootCell(core::cell::UnsafeCell::new(None))
    }

    /// Returns the value; `None` before it is set.
    pub(crate) fn get(&self) -> Option<T> {
        // SAFETY: see the `Sync` implementation.
        unsafe { *self.0.get() }
    }

    /// Sets the value.
    ///
    /// # Safety
    /// No other thread can reach the cell yet. This thread publishes it later, by a store that
    /// other threads acquire.
    pub(crate) unsafe fn set(&self, value: T) {
        // SAFETY: by the caller's promise no other thread accesses the cell.
        unsafe { *self.0.get() = Some(value) };
    }
}
