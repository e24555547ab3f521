//! Serves malloc while another thread forks.
//!
//! The slow paths pass the [`GATE`], which a fork closes (see `faces::fork`). A thread that finds
//! it closed first waits a few milliseconds, because nearly every fork is over soon. Then it
//! proceeds without the allocator, because the fork may be waiting for a lock that this thread
//! holds:
//!
//! * it allocates from *[`islands`]*, small mappings for this purpose, managed by atomic counters
//!   alone;
//! * it stores freed addresses in a table ([`left`]), and the forking thread frees them;
//! * it reads sizes only where that takes no lock.
//!
//! The child is a copy of this state at some moment. Each step is one atomic operation, so every
//! moment is consistent. At worst the child loses a block that the parent's thread was about to
//! receive or had just freed.
#![allow(unsafe_code, reason = "hands out and takes back raw memory")]

mod islands;
mod left;
mod table;

use crate::base::sync::gate::{Gate, Inside};
use crate::base::sync::{AtomicUsize, Ordering, relax, thread_id};
pub(crate) use islands::{alloc, free, size_of};

/// The gate that the slow paths of malloc pass.
pub(crate) static GATE: Gate = Gate::new();

/// The number of checks of a closed gate before a thread proceeds without the allocator: some
/// milliseconds.
const PATIENCE: u32 = 110;

/// 1 after a thread has proceeded without the allocator in the present fork. Other threads then do
/// so at once, because the fork may be waiting for one of them.
static LONG: AtomicUsize = AtomicUsize::new(0);

/// Runs `usual` inside the gate. If another thread's fork keeps the gate closed for some
/// milliseconds, runs `instead`.
pub(crate) fn pass<R>(usual: impl FnOnce() -> R, instead: impl FnOnce() -> R) -> R {
    match enter() {
        Some(_inside) => usual(),
        None => instead(),
    }
}

/// Enters the gate. Returns `None` if it stays closed for some milliseconds. Not inlined, so that
/// all callers share one copy.
#[inline(never)]
fn enter() -> Option<Inside<'static>> {
    let me = thread_id();
    GATE.enter(me).or_else(|| wait(me))
}

/// Waits at the closed gate, unless another thread already waited in vain in this fork.
#[cold]
#[inline(never)]
#[place(background)]
fn wait(me: usize) -> Option<Inside<'static>> {
    for waited in 0..PATIENCE {
        if LONG.load(Ordering::Relaxed) != 0 {
            return None;
        }
        relax(waited);
        if let Some(inside) = GATE.enter(me) {
            return Some(inside);
        }
    }
    LONG.store(1, Ordering::Relaxed);
    None
}

/// Stores a block to be freed after the fork, or frees it if it lies on an island.
///
/// # Safety
/// The caller gives up the allocation that starts at `address`.
#[place(background)]
pub(crate) unsafe fn leave(address: usize) {
    if !islands::free(address) {
        left::put(address);
    }
}

/// Frees the stored blocks by `free`, in the thread that forked.
pub(crate) fn after_fork(free: unsafe extern "C" fn(*mut u8)) {
    LONG.store(0, Ordering::Relaxed);
    left::take_all(|address| {
        // SAFETY: a thread gave up this block, by the contract of `leave`. Since then only the
        // table held it.
        unsafe { free(address as *mut u8) };
    });
}
