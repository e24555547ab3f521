//! Fork: the child finds every structure whole, and no thread waits for a fork for ever.
//!
//! ## Before
//! [`prepare`] closes the gate of malloc and waits until no other thread is in a slow path of
//! malloc. Then it takes all locks, in lock order. The gate is for malloc. The locks are for the
//! slow paths of caches and kmalloc, which do not pass the gate.
//!
//! ## Between
//! The C library goes on to take its own locks, and other libraries have handlers that take theirs.
//! A thread may hold one of these and allocate or free. If it waited for this fork, and the fork
//! for its lock, both would hang. So a thread that finds the gate closed waits for a moment, and
//! then does without the allocator: see the module `sizes::beside_fork`. Caches and kmalloc have
//! no such way: the C library never calls them.
//!
//! The thread that forks may itself allocate, in handlers that run between or in a signal handler,
//! and fork again: gate and locks let it pass (see the module `sync`). So the order in which
//! handlers were registered does not matter.
//!
//! ## After
//! Parent and child release the locks and open the gate. What threads freed meanwhile is freed now.
//! Critical sections need nothing: each is either committed or did not happen. The background
//! thread does not exist in the child.
//!
//! ## Signals
//! [`prepare`] and its counterparts run with signals blocked. A handler that forks in the middle of
//! one would find half of the locks taken. A handler that forks while its thread is in the middle
//! of an allocation finds that allocation's locks held, and leaves them: the child goes on with the
//! same allocation. With other threads such a fork may hang, as with the C library's own malloc:
//! one of them may hold a lock that comes earlier in the order, and wait for one of these.
#![allow(unsafe_code, reason = "handlers for the C library")]

use super::malloc::free;
use crate::base::sync::{AtomicU32, AtomicUsize, LockWord, Ordering, Visit, relax, thread_id};
use crate::boot;
use crate::cache::{reaper, registry, settings};
use crate::engine::{self, history::slab_queues::pool};
use crate::pages::{direct, meta::META, zone::ZONE};
use crate::percpu::{drain, pages, sheaf};
use crate::sizes::beside_fork::{self, GATE};

/// The number of the thread that forks; 0 for none.
static FORKER: AtomicUsize = AtomicUsize::new(0);
/// How many forks of that thread are in progress, each inside the one before. Only changed by that
/// thread.
static DEPTH: AtomicU32 = AtomicU32::new(0);

/// Visits all locks but that of the registry, in lock order.
fn for_each_other_lock(visit: Visit<'_>) {
    drain::for_each_lock(visit);
    registry::for_each_lock(visit);
    engine::for_each_shared_lock(visit);
    sheaf::for_each_lock(visit);
    pool::for_each_lock(visit);
    pages::for_each_lock(visit);
    ZONE.for_each_lock(visit);
    direct::for_each_lock(visit);
    META.for_each_lock(visit);
    settings::for_each_lock(visit);
}

/// Runs `f` with signals blocked: see the module.
fn undisturbed(f: impl FnOnce()) {
    #[cfg(feature = "os")]
    crate::base::os::with_signals_blocked(f);
    #[cfg(not(feature = "os"))]
    f();
}

/// To be called before `fork`, in the thread that forks; not on behalf of another one. Each call
/// needs one of [`after_in_parent`] or [`after_in_child`] in the same thread.
#[place(background)]
pub fn prepare() {
    // A child of a thread that forks while another one boots would wait for that one for ever.
    boot::ensure_base();
    let me = thread_id();
    let mut waited = 0;
    // Forks of several threads come one after another.
    while !begin(me) {
        waited += 1;
        relax(waited);
    }
}

/// Begins a fork of the thread `me`; false while another thread forks.
fn begin(me: usize) -> bool {
    let mut begun = false;
    undisturbed(|| {
        let forker = FORKER.load(Ordering::Relaxed);
        if forker != me && FORKER.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        begun = true;
        let depth = DEPTH.load(Ordering::Relaxed) + 1;
        DEPTH.store(depth, Ordering::Relaxed);
        if depth == 1 {
            GATE.close(me);
            registry::lock_word().lock_for_fork();
            for_each_other_lock(&mut LockWord::lock_for_fork);
        }
    });
    begun
}

/// Ends a fork, in parent and child. A function of its own by name, so that its place is with the
/// others of forks.
#[inline(never)]
#[place(background)]
fn end() {
    let depth = DEPTH.load(Ordering::Relaxed) - 1;
    DEPTH.store(depth, Ordering::Relaxed);
    if depth == 0 {
        for_each_other_lock(&mut LockWord::unlock_after_fork);
        registry::lock_word().unlock_after_fork();
        GATE.open();
        FORKER.store(0, Ordering::Release);
    }
}

/// To be called after `fork` in the parent.
///
/// # Safety
/// [`prepare`] was called before, in this thread.
#[place(background)]
pub unsafe fn after_in_parent() {
    undisturbed(end);
    beside_fork::after_fork(free);
}

/// To be called after `fork` in the child.
///
/// # Safety
/// [`prepare`] was called before, in the thread that forked.
#[place(background)]
pub unsafe fn after_in_child() {
    undisturbed(end_in_child);
    beside_fork::after_fork(free);
}

/// Ends a fork in the child, where no other thread is left.
#[inline(never)]
#[place(background)]
fn end_in_child() {
    GATE.after_fork_in_child(thread_id());
    crate::base::background::after_fork_in_child();
    reaper::after_fork_in_child();
    ZONE.after_fork_in_child();
    drain::after_fork_in_child();
    boot::after_fork_in_child();
    end();
}

/// Has the C library call the three functions above at each fork from now on; false when it has no
/// memory for that. Done once, when the library is loaded, or by an earlier call: the handlers of
/// `prepare` run in reverse order of registration and the others in order, and the earlier these
/// are registered, the shorter other threads have to do without the allocator.
#[cfg(feature = "os")]
#[place(cold)]
pub fn register() -> bool {
    static DONE: AtomicU32 = AtomicU32::new(0);
    if DONE.swap(1, Ordering::AcqRel) != 0 {
        return true;
    }
    #[place(background)]
    extern "C" fn before() {
        prepare();
    }
    #[place(background)]
    extern "C" fn parent() {
        // SAFETY: the C library calls this in the thread that it called `before` in.
        unsafe { after_in_parent() };
    }
    #[place(background)]
    extern "C" fn child() {
        // SAFETY: as above; this is the child's copy of that thread.
        unsafe { after_in_child() };
    }
    unsafe extern "C" {
        /// POSIX; in the C library's static part where it is not in the shared one.
        fn pthread_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> core::ffi::c_int;
    }
    // SAFETY: the handlers are functions of this library; where that can be unloaded, the C library
    // forgets them then.
    let registered = unsafe { pthread_atfork(Some(before), Some(parent), Some(child)) == 0 };
    if !registered {
        DONE.store(0, Ordering::Release);
    }
    registered
}

/// What [`before_vfork`] took, for [`after_vfork`].
#[cfg(all(feature = "os", target_arch = "x86_64"))]
pub use crate::percpu::rseq::Registration;

/// To be called before `vfork`. Its child runs on the parent's thread pointer, and so in the
/// parent's rseq area, but the kernel registers that for the parent alone: nothing would abort the
/// child's sections or keep its CPU number true. So the area is not registered until the parent is
/// back, and both go by the slow path. Where that is refused, no section runs in any thread.
#[cfg(all(feature = "os", target_arch = "x86_64"))]
#[place(background)]
pub extern "C" fn before_vfork() -> Registration {
    if crate::percpu::mode() != crate::percpu::Mode::Rseq {
        return Registration::NONE;
    }
    Registration::take().unwrap_or_else(|| {
        drain::hold_gate();
        Registration::NONE
    })
}

/// To be called in the parent after `vfork`, with what [`before_vfork`] returned.
#[cfg(all(feature = "os", target_arch = "x86_64"))]
#[place(background)]
pub extern "C" fn after_vfork(registration: Registration) {
    if registration.is_some() {
        registration.put_back();
    } else if crate::percpu::mode() == crate::percpu::Mode::Rseq {
        drain::release_gate();
    }
}
