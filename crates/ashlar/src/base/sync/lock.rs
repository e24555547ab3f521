//! Spin locks, which a fork can hold.
//!
//! ## What a lock word holds
//!
//! | value | the lock is |
//! |---|---|
//! | 0 | free |
//! | the number of a thread | held by that thread |
//! | the same plus [`FORKING`] | held by that thread for a fork |
//!
//! A thread that forks takes all locks before and releases them after, so that the child finds
//! every structure whole. Between the two it runs handlers of other libraries, which may allocate.
//! So a lock that is held for a fork lets its own thread pass: the thread takes it as if it were
//! free, and the release makes it what it was. Other threads wait.
#![allow(unsafe_code, reason = "the lock hands out references to the cell it guards")]

use super::{AtomicUsize, Ordering, bump, relax, thread_id};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

/// Marks a lock as held for a fork. Numbers of threads are even.
const FORKING: usize = 1;

/// The word of a lock; see the module's table.
pub(crate) struct LockWord(AtomicUsize);

/// That a lock is held: what its word becomes at the release.
#[derive(Debug)]
#[must_use = "a lock is released by hand"]
pub(crate) struct Held(usize);

impl LockWord {
    pub(crate) const fn new() -> LockWord {
        LockWord(AtomicUsize::new(0))
    }

    /// Takes the lock, by one compare-and-swap where it is free.
    ///
    /// A waiter spins a little, then yields, then sleeps, longer and longer: a holder that was
    /// preempted, or has a lower real-time priority than the waiter, gets to run.
    #[inline]
    pub(crate) fn lock(&self) -> Held {
        let me = thread_id();
        match self.0.compare_exchange_weak(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Held(0),
            Err(_) => self.wait(me),
        }
    }

    /// Takes the lock if it is free; never waits.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Held> {
        let me = thread_id();
        match self.0.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Some(Held(0)),
            Err(word) => self.pass(word, me),
        }
    }

    /// Takes the lock if `word`, its value, says that it is held for a fork of the thread `me`,
    /// which is the caller.
    #[inline]
    fn pass(&self, word: usize, me: usize) -> Option<Held> {
        (word == me | FORKING).then(|| {
            // No other thread changes the word meanwhile. A signal handler in this thread finds it
            // held.
            self.0.store(me, Ordering::Relaxed);
            Held(word)
        })
    }

    /// Takes a lock that is not free. One function for the locks of all things.
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
            relax(waited);
        }
    }

    /// Releases the lock.
    #[inline]
    pub(crate) fn unlock(&self, held: Held) {
        self.unlock_by(&held);
    }

    /// As [`Self::unlock`], for a destructor: `held` is not used again.
    #[inline]
    pub(crate) fn unlock_by(&self, held: &Held) {
        self.0.store(held.0, Ordering::Release);
    }

    /// Takes the lock for a fork. Leaves it as it is where this thread holds it already: for a fork
    /// around this one, or in the operation that a signal handler interrupted, which forks now. The
    /// child goes on with that operation as well.
    pub(crate) fn lock_for_fork(&self) {
        let me = thread_id();
        if self.0.load(Ordering::Relaxed) & !FORKING != me {
            let Held(_) = self.lock();
            self.0.store(me | FORKING, Ordering::Relaxed);
        }
    }

    /// Releases what the calling thread, or in the child of a fork its copy in the parent, took by
    /// [`Self::lock_for_fork`].
    pub(crate) fn unlock_after_fork(&self) {
        if self.0.load(Ordering::Relaxed) == thread_id() | FORKING {
            self.0.store(0, Ordering::Release);
        }
    }

    /// Whether the lock is held at this moment. For observers: the answer may be old when it
    /// arrives.
    pub(crate) fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

/// What a fork does to each lock of a module: takes it, or releases it.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&LockWord);

/// A spin lock for short sections. Nothing that runs under it allocates, calls code of the program,
/// or calls a function of the C library that may wait.
///
/// Each lock counts how often it was taken: its holder adds one, by a load and a store beside the
/// locked word.
pub(crate) struct SpinLock<T> {
    word: LockWord,
    taken: AtomicUsize,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives exclusive access to `T`, so sharing it needs only that `T` may move
// between threads.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        SpinLock { word: LockWord::new(), taken: AtomicUsize::new(0), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let held = self.word.lock();
        bump(&self.taken);
        Guard { lock: self, held }
    }

    /// Takes the lock if it is free; never waits.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        let held = self.word.try_lock()?;
        bump(&self.taken);
        Some(Guard { lock: self, held })
    }

    /// The word of the lock, for forks.
    pub(crate) fn word(&self) -> &LockWord {
        &self.word
    }

    /// The guarded value, for a thread that holds the lock for a fork.
    pub(crate) fn data_ptr(&self) -> *mut T {
        self.value.get()
    }

    /// See [`LockWord::is_held`].
    pub(crate) fn is_held(&self) -> bool {
        self.word.is_held()
    }

    /// How often the lock was taken since [`Self::reset_taken`]; wraps around.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Starts the count from zero.
    pub(crate) fn reset_taken(&self) {
        self.taken.store(0, Ordering::Relaxed);
    }
}

/// Exclusive access to what a [`SpinLock`] guards; released on drop.
pub(crate) struct Guard<'a, T> {
    lock: &'a SpinLock<T>,
    held: Held,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists only while this thread holds the lock, so no other thread has a
        // reference to the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and `&mut self` makes this reference the only one through the
        // guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.word.unlock_by(&self.held);
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
        // A handler that interrupts this thread while it has the lock must not take it too.
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
}
