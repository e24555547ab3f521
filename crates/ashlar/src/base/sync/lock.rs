//! Spin locks that a fork can hold. A lock word holds one of:
//!
//! | value | the lock is |
//! |---|---|
//! | 0 | free |
//! | the number of a thread | held by that thread |
//! | the same plus [`FORKING`] | held by that thread for a fork |
//!
//! Under a kernel, a lock is held in a [section](section), so no interrupt handler finds a lock
//! held by what it interrupted.
//!
//! A thread that forks takes all locks before the fork and releases them after it, so that the
//! child finds every structure consistent. In between it runs fork handlers of other libraries,
//! which may allocate. A lock held for a fork therefore lets its own thread pass: the thread takes
//! the lock as if it were free, and the release restores the word. Other threads wait.
#![allow(unsafe_code, reason = "the lock returns references to the cell it guards")]

use super::{AtomicUsize, Ordering, bump, relax, section, thread_id};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// Marks a lock as held for a fork. The bit is free because thread numbers are even.
const FORKING: usize = 1;

/// The word of a lock; see the module's table.
pub(crate) struct LockWord(AtomicUsize);

/// Proof that a lock is held. Holds the value to which the release sets the word.
#[derive(Debug)]
#[must_use = "a lock is released by hand"]
pub(crate) struct Held(usize);

#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Held {
    /// # Safety
    /// The caller has changed the word of a free lock to the number of its thread.
    #[inline]
    pub(crate) unsafe fn of_free_lock() -> Held {
        Held(0)
    }
}

impl LockWord {
    pub(crate) const fn new() -> LockWord {
        LockWord(AtomicUsize::new(0))
    }

    /// Takes the lock, by one compare-and-swap if it is free.
    ///
    /// A waiter spins a little, then yields, then sleeps for growing times. So a lock holder runs
    /// even if it was preempted or has a lower real-time priority than the waiter.
    #[inline]
    pub(crate) fn lock(&self) -> Held {
        section::enter();
        let me = thread_id();
        match self.0.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Held(0),
            Err(_) => self.wait(me),
        }
    }

    /// Takes the lock if it is free; never waits.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Held> {
        section::enter();
        let me = thread_id();
        let held = match self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(Held(0)),
            Err(word) => self.pass(word, me),
        };
        if held.is_none() {
            section::leave();
        }
        held
    }

    /// Takes the lock if `word`, its value, shows that the calling thread `me` holds it for a fork.
    #[inline]
    fn pass(&self, word: usize, me: usize) -> Option<Held> {
        (word == me | FORKING).then(|| {
            // No other thread changes the word while it is held for a fork. A signal handler in
            // this thread finds it held by `me` and does not pass.
            self.0.store(me, Ordering::Relaxed);
            Held(word)
        })
    }

    /// Takes the lock if the calling thread holds it for a fork.
    pub(crate) fn pass_own(&self) -> Option<Held> {
        self.pass(self.0.load(Ordering::Relaxed), thread_id())
    }

    /// Takes a lock that is not free. Not generic, so all locks share one copy of this function.
    #[cold]
    #[inline(never)]
    fn wait(&self, me: usize) -> Held {
        let mut waited = 0u32;
        loop {
            match self.0.load(Ordering::Relaxed) {
                0 => {
                    if self.0.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                        return Held(0);
                    }
                }
                word => {
                    if let Some(held) = self.pass(word, me) {
                        return held;
                    }
                }
            }
            waited = waited.saturating_add(1);
            // The CPU that waits may be needed: for its interrupts, or to answer the lock's holder.
            section::leave();
            relax(waited);
            section::enter();
        }
    }

    /// Releases the lock.
    #[inline]
    pub(crate) fn unlock(&self, held: Held) {
        self.unlock_by(&held);
    }

    /// Releases the lock in a destructor. The caller does not use `held` again.
    #[inline]
    pub(crate) fn unlock_by(&self, held: &Held) {
        self.0.store(held.0, Ordering::Release);
        section::leave();
    }

    /// Takes the lock for a fork. Leaves it as it is if this thread already holds it. That happens
    /// in a nested fork, and when a signal handler interrupts an operation and forks. The operation
    /// continues in the child too.
    pub(crate) fn lock_for_fork(&self) {
        let me = thread_id();
        if self.0.load(Ordering::Relaxed) & !FORKING != me {
            let Held(_) = self.lock();
            self.0.store(me | FORKING, Ordering::Relaxed);
        }
    }

    /// Releases a lock that [`Self::lock_for_fork`] took in the calling thread or, after a fork, in
    /// the parent's thread that the calling thread is a copy of.
    pub(crate) fn unlock_after_fork(&self) {
        if self.0.load(Ordering::Relaxed) == thread_id() | FORKING {
            self.0.store(0, Ordering::Release);
        }
    }

    /// Returns whether the lock is held at this moment. For observers, because the answer may be
    /// out of date on return.
    pub(crate) fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

/// What a fork does to each lock of a module: it takes or releases the lock.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&LockWord);

/// A spin lock for short critical sections. Code that runs under it must not allocate, call the
/// program's code, or call a function of the C library that may block.
///
/// Each lock counts its acquisitions, and those that had to wait. Only the lock holder increments
/// the counts, so a load and a store beside the lock word suffice.
pub(crate) struct SpinLock<T> {
    head: Head,
    value: UnsafeCell<T>,
}

/// A lock word and its counts.
struct Head {
    word: LockWord,
    taken: AtomicUsize,
    waited: AtomicUsize,
}

impl Head {
    /// As [`LockWord::lock`].
    #[inline]
    fn lock(&self) -> Held {
        section::enter();
        let me = thread_id();
        match self.word.0.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Held(0),
            Err(_) => self.wait(me),
        }
    }

    /// As [`LockWord::wait`]. Not generic either.
    #[cold]
    #[inline(never)]
    fn wait(&self, me: usize) -> Held {
        let held = self.word.wait(me);
        // A thread that passes a lock of its own did not wait.
        if held.0 == 0 {
            bump(&self.waited);
        }
        held
    }
}

// SAFETY: the lock gives exclusive access to `T`, so `T: Send` is enough to share it.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// The offset of the value, for a reader outside of the process.
    #[cfg(feature = "os")]
    pub(crate) const VALUE: usize = core::mem::offset_of!(SpinLock<T>, value);
    /// The offset of the count of acquisitions.
    #[cfg(feature = "os")]
    pub(crate) const TAKEN: usize = core::mem::offset_of!(SpinLock<T>, head) + core::mem::offset_of!(Head, taken);
    /// The offset of the count of acquisitions that had to wait.
    #[cfg(feature = "os")]
    pub(crate) const WAITED: usize = core::mem::offset_of!(SpinLock<T>, head) + core::mem::offset_of!(Head, waited);

    pub(crate) const fn new(value: T) -> Self {
        let head = Head { word: LockWord::new(), taken: AtomicUsize::new(0), waited: AtomicUsize::new(0) };
        SpinLock { head, value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let held = self.head.lock();
        bump(&self.head.taken);
        Guard { lock: self, held }
    }

    /// Takes the lock if it is free; never waits.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        let held = self.head.word.try_lock()?;
        bump(&self.head.taken);
        Some(Guard { lock: self, held })
    }

    /// Returns the lock word, for forks.
    pub(crate) fn word(&self) -> &LockWord {
        &self.head.word
    }

    /// Returns a pointer to the guarded value, for a thread that holds the lock for a fork.
    pub(crate) fn data_ptr(&self) -> *mut T {
        self.value.get()
    }

    /// Returns whether the lock is held; see [`LockWord::is_held`].
    pub(crate) fn is_held(&self) -> bool {
        self.head.word.is_held()
    }

    /// Returns the number of acquisitions since [`Self::reset_counts`]; wraps around.
    pub(crate) fn taken(&self) -> usize {
        self.head.taken.load(Ordering::Relaxed)
    }

    /// Returns the number of acquisitions that had to wait since [`Self::reset_counts`]; wraps
    /// around.
    pub(crate) fn waited(&self) -> usize {
        self.head.waited.load(Ordering::Relaxed)
    }

    /// Resets the counts to zero.
    pub(crate) fn reset_counts(&self) {
        self.head.taken.store(0, Ordering::Relaxed);
        self.head.waited.store(0, Ordering::Relaxed);
    }
}

/// Exclusive access to the value of a [`SpinLock`]. Dropping it releases the lock.
pub(crate) struct Guard<'a, T> {
    lock: &'a SpinLock<T>,
    held: Held,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock while the guard exists, so no other thread has a
        // reference to the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`. `&mut self` makes this reference the only one through the guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.head.word.unlock_by(&self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_held_for_a_fork_lets_its_own_thread_pass_and_no_other() {
        let lock = SpinLock::new(0);
        lock.word().lock_for_fork();
        lock.word().lock_for_fork();
        assert!(lock.is_held());
        *lock.lock() += 1;
        *lock.try_lock().expect("this thread's own") += 1;
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(lock.try_lock().is_none(), "another thread must wait"));
        });
        // A signal handler that interrupts the lock holder must not take the lock too.
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert!(lock.is_held(), "the fork still holds it");
        lock.word().unlock_after_fork();
        assert!(!lock.is_held() && *lock.lock() == 2);
    }

    #[test]
    fn a_fork_leaves_alone_what_the_operation_that_it_interrupts_holds() {
        let lock = SpinLock::new(());
        let guard = lock.lock();
        lock.word().lock_for_fork();
        lock.word().unlock_after_fork();
        assert!(lock.is_held(), "the operation goes on, in both processes");
        drop(guard);
        assert!(!lock.is_held());
    }

    #[test]
    fn a_lock_counts_the_threads_that_had_to_wait() {
        let lock = SpinLock::new(());
        drop(lock.lock());
        lock.word().lock_for_fork();
        drop(lock.lock());
        lock.word().unlock_after_fork();
        assert_eq!((lock.taken(), lock.waited()), (2, 0));
        // The other thread may be slow to come to the lock.
        for _ in 0..1000 {
            let guard = lock.lock();
            std::thread::scope(|scope| {
                let other = scope.spawn(|| drop(lock.lock()));
                std::thread::sleep(core::time::Duration::from_millis(1));
                drop(guard);
                other.join().expect("it ends");
            });
            if lock.waited() > 0 {
                break;
            }
        }
        assert!(lock.waited() > 0);
        lock.reset_counts();
        assert_eq!((lock.taken(), lock.waited()), (0, 0));
    }
}
