//! Fork: the child finds every structure consistent, and no thread waits for a fork for ever.
//!
//! ## Before
//! [`prepare`] closes the gate of malloc and waits until no other thread is in a slow path of
//! malloc. Then it takes all locks, in lock order. The gate is for malloc. The locks are for the
//! slow paths of caches and kmalloc, which do not pass the gate.
//!
//! ## Between
//! The C library takes its own locks next, and handlers of other libraries take theirs. A thread
//! may hold one of these while it allocates or frees. If it waited for this fork, and the fork for
//! its lock, both would hang. So a thread that finds the gate closed waits a few milliseconds, and
//! then proceeds without the allocator; see the module `sizes::beside_fork`. Caches and kmalloc
//! need no such path, because the C library never calls them.
//!
//! The forking thread may itself allocate and fork again, in other fork handlers or in a signal
//! handler, because gate and locks let it pass (see the module `sync`). So the order in which
//! handlers were registered does not matter.
//!
//! ## After
//! Parent and child release the locks and open the gate. Blocks that threads freed meanwhile are
//! now freed. Critical sections need no work, because each either committed or had no effect. The
//! background thread does not exist in the child.
//!
//! ## Signals
//! [`prepare`] and its counterparts run with signals blocked. A handler that forks in the middle of
//! one would find half of the locks taken. A handler that forks in the middle of its thread's
//! allocation finds the locks of that allocation held, and leaves them, because the child continues
//! the same allocation. With other threads, such a fork may deadlock, as with the C library's own
//! malloc: another thread may hold an earlier lock and wait for one of these.
#![allow(unsafe_code, reason = "handlers for the C library")]

use super::malloc::free;
use crate::base::sync::{AtomicU32, AtomicUsize, LockWord, Ordering, Visit, relax, thread_id};
use crate::boot;
use crate::cache::{reaper, registry, settings};
use crate::engine::{self, history::slab_queues::pool};
use crate::pages::{direct, meta::META, zone::ZONE};
use crate::percpu::{drain, pages, sheaf};
use crate::sizes::beside_fork::{self, GATE};
#[cfg(feature = "os")]
use crate::sizes::profile;

/// The number of the thread that forks; 0 for none.
static FORKER: AtomicUsize = AtomicUsize::new(0);
/// The number of nested forks of that thread. Only that thread changes it.
static DEPTH: AtomicU32 = AtomicU32::new(0);

/// Visits all locks but the registry lock, in lock order.
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
    #[cfg(feature = "os")]
    profile::for_each_lock(visit);
}

/// Runs `f` with signals blocked; see the module.
fn undisturbed(f: impl FnOnce()) {
    #[cfg(feature = "os")]
    crate::base::os::with_signals_blocked(f);
    #[cfg(not(feature = "os"))]
    f();
}

/// Must be called before `fork`, in the thread that forks. Each call needs a call of
/// [`after_in_parent`] or [`after_in_child`] in the same thread.
#[place(background)]
pub fn prepare() {
    // Without this, a child forked while another thread starts the allocator would wait for that
    // thread for ever.
    boot::ensure_base();
    let me = thread_id();
    let mut waited = 0;
    // Forks of several threads run one after another.
    while !begin(me) {
        waited += 1;
        relax(waited);
    }
}

/// Begins a fork of the thread `me`. Returns false while another thread forks.
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

/// Ends a fork, in parent and child. A named function, so that it is placed with the other
/// functions of forks.
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

/// Must be called after `fork` in the parent.
///
/// # Safety
/// [`prepare`] was called before, in this thread.
#[place(background)]
pub unsafe fn after_in_parent() {
    undisturbed(end);
    beside_fork::after_fork(free);
}

/// Must be called after `fork` in the child.
///
/// # Safety
/// [`prepare`] was called before, in the thread that forked.
#[place(background)]
pub unsafe fn after_in_child() {
    undisturbed(end_in_child);
    beside_fork::after_fork(free);
}

/// Ends a fork in the child, where no other thread exists.
#[inline(never)]
#[place(background)]
fn end_in_child() {
    GATE.after_fork_in_child(thread_id());
    crate::base::background::after_fork_in_child();
    #[cfg(feature = "os")]
    crate::cache::hands::after_fork_in_child();
    reaper::after_fork_in_child();
    ZONE.after_fork_in_child();
    drain::after_fork_in_child();
    boot::after_fork_in_child();
    #[cfg(feature = "os")]
    profile::after_fork_in_child();
    end();
}

/// Registers the three functions above with the C library as fork handlers. Returns false if it has
/// no memory for that. Happens once, when the library is loaded, or by an earlier call. `prepare`
/// handlers run in reverse order of registration and the others in order, so an early registration
/// shortens the time in which other threads are without the allocator.
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
        // SAFETY: the C library calls this in the thread in which it called `before`.
        unsafe { after_in_parent() };
    }
    #[place(background)]
    extern "C" fn child() {
        // SAFETY: as above; this is the child's copy of that thread.
        unsafe { after_in_child() };
    }
    unsafe extern "C" {
        /// The function of POSIX. Some C libraries have it only in their static part.
        fn pthread_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> core::ffi::c_int;
    }
    // SAFETY: the handlers are functions of this library. If it is unloaded, the C library removes
    // them.
    let registered = unsafe { pthread_atfork(Some(before), Some(parent), Some(child)) == 0 };
    if !registered {
        DONE.store(0, Ordering::Release);
    }
    registered
}

// The static part of `pthread_atfork` names the library that registers by a variable of the start
// files, without which libraries for enforced branch targets are linked.
#[cfg(all(feature = "os", ashlar_bti))]
core::arch::global_asm!(
    ".weak __dso_handle",
    ".hidden __dso_handle",
    ".pushsection .data.dso_handle, \"aw\", %progbits",
    ".p2align 3",
    "__dso_handle: .quad 0",
    ".popsection"
);

/// The state that [`before_vfork`] saved for [`after_vfork`].
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use crate::percpu::rseq::Registration;

/// Must be called before `vfork`. Its child runs on the parent's thread pointer, and so in the
/// parent's rseq area, which the kernel has registered only for the parent. So the kernel would
/// neither abort the child's sections nor update its CPU number. Therefore the area is unregistered
/// until the parent resumes, and both take slow paths. If the kernel refuses that, no thread runs a
/// section meanwhile.
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
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

/// Must be called in the parent after `vfork`, with the value that [`before_vfork`] returned.
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[place(background)]
pub extern "C" fn after_vfork(registration: Registration) {
    if registration.is_some() {
        registration.put_back();
    } else if crate::percpu::mode() == crate::percpu::Mode::Rseq {
        drain::release_gate();
    }
}
