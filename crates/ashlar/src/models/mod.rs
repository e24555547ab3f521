//! Models: what can happen between threads, explored by loom.
//!
//! Run by `ci/loom.sh`. Each model asks one question and states the property in its name. The code under test is
//! the real one: [`crate::slab::partial`], [`crate::engine::sheaves::barn`],
//! [`crate::engine::history::slub::slabs`], [`crate::engine::history::slab_queues::lists`] with its arrays, [`crate::slab`], the sheaves, over
//! slabs of two or three objects. [`bench`] stands for what lies around it: the memmap, the zone, the objects.
//!
//! What loom explores: interleavings of the atomic operations and locks of at most three threads with at most
//! `LOOM_MAX_PREEMPTIONS` preemptions, and every value that a load may see under the C11 model (`SeqCst` as
//! `AcqRel`). What it does not: load buffering, spurious failures of `compare_exchange_weak`, assembly. Of
//! interleavings that it takes to be equal it explores one, and that judgement is not exact; see `Entries::steps`
//! in [`bench`] for what the models do about it.
//!
//! * [`free_refill`]: a free against refills of its slab.
//! * [`full_partial`]: full slabs that become partial.
//! * [`to_empty`]: slabs that become empty.
//! * [`give_back`]: the surplus of a refill that goes back.
//! * [`shrink`]: shrink and destroy against frees.
//! * [`sparse`]: freelists that are taken for evicted objects.
//! * [`frozen`]: slabs of CPUs, by compare-and-swap and by slab_lock.
//! * [`queues`]: array caches, shared arrays and alien caches of SLAB.
//! * [`quarantine`]: corrupt slabs against frees and refills.
//! * [`barn`]: the exchange of sheaves.
//! * [`bound`]: the two copies of a fast path's bound.
//! * [`gate`]: the gate that a fork closes.
//! * [`stop`]: the stop protocol of a drain, in the abstract.

mod barn;
mod bench;
mod bound;
mod free_refill;
mod frozen;
mod full_partial;
mod gate;
mod give_back;
mod quarantine;
mod queues;
mod shrink;
mod sparse;
mod stop;
mod to_empty;

use core::sync::atomic::{AtomicUsize, Ordering};

/// Explores the interleavings of `f` and prints how many there were.
///
/// The count is the proof that a model is not trivial: a model whose threads never meet has a handful.
fn explore(f: impl Fn() + Send + Sync + 'static) {
    static RUNS: std::sync::Mutex<()> = std::sync::Mutex::new(());
    // A failed model must not fail the next one.
    let _one_at_a_time = RUNS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut builder = loom::model::Builder::new();
    // From LOOM_MAX_PREEMPTIONS; unbounded exploration would not end, so there is a default.
    builder.preemption_bound.get_or_insert(3);
    let count = std::sync::Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let start = std::time::Instant::now();
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        f();
    });
    let count = count.load(Ordering::Relaxed);
    std::println!("{count} interleavings in {:.1} s", start.elapsed().as_secs_f32());
    assert!(count > 2, "the threads of this model do not meet");
}

/// Runs `a` and `b` in threads of their own and `c` in this one; their results.
fn race<A: 'static, B: 'static, C>(
    a: impl FnOnce() -> A + 'static,
    b: impl FnOnce() -> B + 'static,
    c: impl FnOnce() -> C,
) -> (A, B, C) {
    let (a, b) = (loom::thread::spawn(a), loom::thread::spawn(b));
    let c = c();
    (a.join().unwrap(), b.join().unwrap(), c)
}
