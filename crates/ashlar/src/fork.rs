//! Fork: all locks are taken before, in lock order, and released after, in parent and child.
//!
//! So the child finds every structure whole. What other threads of the parent had in hand at that moment (a
//! sheaf being refilled) is lost to the child, a few kilobytes at most. Critical sections need nothing: each is
//! either committed or did not happen. The background thread is gone in the child and starts anew when needed.
#![allow(unsafe_code, reason = "locks are held across fork")]

use crate::cache::registry;
use crate::engine::{self, slab::pool};
use crate::page::{direct, meta::META, zone::ZONE};
use crate::percpu::{drain, pages, sheaf};

/// To be called before `fork`, in the forking thread.
pub fn prepare() {
    // A child of a thread that forks while another one boots would wait for that one for ever.
    crate::boot::ensure_base();
    registry::lock_all();
    drain::lock_all();
    registry::for_each_locked(true);
    engine::lock_shared();
    sheaf::lock_pool();
    pool::lock_pools();
    pages::lock_all();
    ZONE.lock_all();
    direct::lock_all();
    META.lock_all();
    crate::boot::lock_options();
}

fn release() {
    // SAFETY: `prepare` took exactly these locks, in this thread or, in a child, in its copy in the parent.
    unsafe {
        crate::boot::unlock_options();
        META.unlock_all();
        direct::unlock_all();
        ZONE.unlock_all();
        pages::unlock_all();
        pool::unlock_pools();
        sheaf::unlock_pool();
        engine::unlock_shared();
        registry::for_each_locked(false);
        drain::unlock_all();
        registry::unlock_all();
    }
}

/// To be called after `fork` in the parent.
///
/// # Safety
/// [`prepare`] was called before, in this thread.
pub unsafe fn after_in_parent() {
    release();
}

/// To be called after `fork` in the child.
///
/// # Safety
/// [`prepare`] was called before, in the thread that forked.
pub unsafe fn after_in_child() {
    release();
    crate::background::after_fork_in_child();
    crate::cache::reaper::after_fork_in_child();
    ZONE.after_fork_in_child();
    crate::boot::after_fork_in_child();
    crate::malloc::after_fork_in_child();
}

/// Has the C library call the three functions above at each fork from now on; false when it has no memory for that. The
/// handlers of `prepare` run in reverse order of registration and the others in order: whoever registers first takes the
/// locks after every other handler ran, and releases them before any other runs, so that all of them may allocate.
#[cfg(feature = "os")]
pub fn register() -> bool {
    extern "C" fn before() {
        prepare();
    }
    extern "C" fn parent() {
        // SAFETY: the C library calls this in the thread that it called `before` in.
        unsafe { after_in_parent() };
    }
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
    // SAFETY: the handlers are functions of this library; where that can be unloaded, the C library forgets them then.
    unsafe { pthread_atfork(Some(before), Some(parent), Some(child)) == 0 }
}

/// The calling thread's rseq area, where critical sections rely on one; null otherwise. What `vfork` needs: its child runs
/// on the parent's thread pointer, and so in the parent's area, but without a registration, so nobody would abort its
/// sections or keep its CPU number true. A `vfork` that unregisters the area before, and registers it again in
/// the parent, has both go by the slow path meanwhile.
#[cfg(all(feature = "os", target_arch = "x86_64"))]
pub fn rseq_area() -> *mut u8 {
    if crate::percpu::mode() != crate::percpu::Mode::Rseq {
        return core::ptr::null_mut();
    }
    crate::percpu::rseq::area()
}

/// The signature that rseq areas are registered with.
#[cfg(all(feature = "os", target_arch = "x86_64"))]
pub const RSEQ_SIGNATURE: u32 = crate::percpu::sections::SIGNATURE;
