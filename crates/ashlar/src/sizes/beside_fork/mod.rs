//! What malloc does while another thread forks.
//!
//! The slow paths pass the [`GATE`], which a fork closes: see `faces::fork`. A thread that finds
//! it closed waits for a moment, because nearly every fork is over soon. After that it does without
//! the allocator, because the fork may be waiting for a lock that this thread holds:
//!
//! * it allocates from *[`islands`]*, small mappings made for this alone, which nothing but atomic
//!   counters manages;
//! * it leaves what it frees in a table ([`left`]), for the thread that forks;
//! * it asks for sizes only where that takes no lock.
//!
//! The child is a copy of some moment of this. Each step is one atomic operation, so every moment
//! will do: at worst the child loses a block that the parent's thread was about to get or had just
//! given up.
#![allow(unsafe_code, reason = "hands out and takes back raw memory")]

mod islands;
mod left;
mod table;

use crate::base::sync::gate::{Gate, Inside};
use crate::base::sync::{AtomicUsize, Ordering, relax, thread_id};
pub(crate) use islands::{alloc, free, size_of};

/// What the slow paths of malloc pass.
pub(crate) static GATE: Gate = Gate::new();

/// Looks at a closed gate before a thread does without: some milliseconds.
const PATIENCE: u32 = 110;

/// 1 once a thread did without in the fork at hand. Other threads then do so at once: what this
/// fork waits for may be what they are about to do.
static LONG: AtomicUsize = AtomicUsize::new(0);

/// Runs `usual` inside the gate. Where another thread's fork keeps the gate closed for longer than
/// a moment, runs `instead`.
pub(crate) fn pass<R>(usual: impl FnOnce() -> R, instead: impl FnOnce() -> R) -> R {
    match enter() {
        Some(_inside) => usual(),
        None => instead(),
    }
}

/// Goes in; `None` if the gate stays closed for longer than a moment. One copy for all who pass.
#[inline(never)]
fn enter() -> Option<Inside<'static>> {
    let me = thread_id();
    GATE.enter(me).or_else(|| wait(me))
}

/// Waits before the closed gate, unless another thread did so in vain in this fork.
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

/// Leaves a block to be freed after the fork, or frees it if it lies on an island.
///
/// # Safety
/// The caller gives up the allocation that starts at `address`.
#[place(background)]
pub(crate) unsafe fn leave(address: usize) {
    if !islands::free(address) {
        left::put(address);
    }
}

/// Frees by `free` what was left, in the thread that forked.
pub(crate) fn after_fork(free: unsafe extern "C" fn(*mut u8)) {
    LONG.store(0, Ordering::Relaxed);
    left::take_all(|address| {
        // SAFETY: a thread gave this block up, by the contract of `leave`. It has been nowhere but
        // in the table since.
        unsafe { free(address as *mut u8) };
    });
}
