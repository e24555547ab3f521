//! Models: the interleavings of threads, explored by loom.
//!
//! Run by `ci/loom.sh`. Each model asks one question and states the property in its name. The code
//! under test is the real one: [`crate::slab`] and its [`crate::slab::partial`], the sheaves,
//! [`crate::engine::sheaves::barn`], [`crate::engine::history::slub::slabs`] and `partly` beside
//! it, and [`crate::engine::history::slab_queues::lists`] with its arrays. The slabs have two or
//! three objects. [`bench`] replaces the surroundings: the memmap, the zone, the objects.
//!
//! loom explores the interleavings of the atomic operations and locks of at most three threads,
//! with at most `LOOM_MAX_PREEMPTIONS` preemptions. It also explores every value that a load may
//! return under the C11 model, with `SeqCst` as `AcqRel`. It does not explore load buffering,
//! spurious failures of `compare_exchange_weak`, or assembly. Of interleavings that it considers
//! equal it explores one, and that reduction is not exact; see `Entries::steps` in [`bench`] for
//! the remedy.
//!
//! * [`free_refill`]: a free against refills of its slab.
//! * [`full_partial`]: full slabs that become partial.
//! * [`to_empty`]: slabs that become empty.
//! * [`give_back`]: a refill that returns its surplus.
//! * [`shrink`]: shrink and destroy against frees.
//! * [`sparse`]: freelists that are taken for evicted objects.
//! * [`frozen`]: CPU slabs, by compare-and-swap and by slab_lock.
//! * [`partly`]: frees by compare-and-swap with a racy count, all else by slab_lock.
//! * [`queues`]: array caches, shared arrays and alien caches of SLAB.
//! * [`quarantine`]: corrupt slabs against frees and refills.
//! * [`barn`]: the exchange of sheaves.
//! * [`bound`]: the two copies of a fast path's bound.
//! * [`gate`]: the gate that a fork closes.
//! * [`life`]: the background thread, started and ended by threads that come and go.
//! * [`mailbox`]: letters of tools, taken by one thread and whole.
//! * [`bias`]: the biased CPU lock, in the abstract.
//! * [`section`]: drains of sections that are plain code, with the real word of a CPU.
//! * [`stop`]: the stop protocol of a drain, in the abstract.

mod barn;
mod bench;
mod bias;
mod bound;
mod free_refill;
mod frozen;
mod full_partial;
mod gate;
mod give_back;
mod life;
mod mailbox;
mod partly;
mod quarantine;
mod queues;
mod section;
mod shrink;
mod sparse;
mod stop;
mod to_empty;

use core::sync::atomic::{AtomicUsize, Ordering};

/// Explores the interleavings of `f` and prints their number.
///
/// The number shows that a model is not trivial: if its threads never meet, there are only a
/// handful.
fn explore(f: impl Fn() + Send + Sync + 'static) {
    static RUNS: std::sync::Mutex<()> = std::sync::Mutex::new(());
    // Ignore the poison, so that a failed model does not fail the next one.
    let _one_at_a_time = RUNS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut builder = loom::model::Builder::new();
    // LOOM_MAX_PREEMPTIONS overrides this default. Without a bound the exploration would not end.
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

/// Runs `a` and `b` in threads of their own and `c` in this one, and returns their results.
fn race<A: 'static, B: 'static, C>(
    a: impl FnOnce() -> A + 'static,
    b: impl FnOnce() -> B + 'static,
    c: impl FnOnce() -> C,
) -> (A, B, C) {
    let (a, b) = (loom::thread::spawn(a), loom::thread::spawn(b));
    let c = c();
    (a.join().unwrap(), b.join().unwrap(), c)
}
