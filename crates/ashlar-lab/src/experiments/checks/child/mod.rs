//! The process that times checked and unchecked calls by turns, on one thread of one CPU.

#[cfg(target_arch = "x86_64")]
mod unchecked;

use crate::experiments::checks::plan::{Answer, Plan};
use crate::kit::error::LabError;
use crate::kit::once;

/// Measures what the plan says, and prints the answer.
pub(crate) fn main(plan: &str) -> Result<(), LabError> {
    let plan: Plan = once::plan(plan, "bench checks")?;
    once::answer(&measure(&plan)?)
}

#[cfg(not(target_arch = "x86_64"))]
fn measure(_plan: &Plan) -> Result<Answer, LabError> {
    Err(LabError::Failed("malloc has the fast paths that this compares only on x86-64".to_owned()))
}

#[cfg(target_arch = "x86_64")]
fn measure(plan: &Plan) -> Result<Answer, LabError> {
    timed::measure(plan)
}

#[cfg(target_arch = "x86_64")]
mod timed {
    use core::hint::black_box;

    use crate::experiments::checks::child::unchecked::{self, Unchecked};
    use crate::experiments::checks::plan::{Answer, BURST, Cell, Plan, SYSTEMS, TESTS};
    use crate::kit::error::LabError;
    use crate::kit::measure::{allowed_cpus, pin, ticks};
    use crate::systems::ours::{Kmalloc, Malloc};
    use crate::systems::traits::Calls;

    /// A pass of so many pairs of one size.
    type Pass = fn(usize, usize);

    pub(super) fn measure(plan: &Plan) -> Result<Answer, LabError> {
        pin(allowed_cpus()[0]);
        // The first call starts the allocator, which opens the paths.
        pairs::<Malloc>(16, 1);
        if !ashlar::malloc::has_fast_paths() || ashlar::nodes() > 1 {
            return Err(LabError::Failed(format!(
                "malloc or free has no fast path here: sections by {}, {} nodes",
                ashlar::mode(),
                ashlar::nodes()
            )));
        }
        let mut cells = Vec::new();
        for &size in &plan.sizes {
            unchecked::prepare(size);
            let of_test: [[Pass; 3]; 2] = [
                [pairs::<Malloc>, pairs::<Unchecked>, pairs::<Kmalloc>],
                [bursts::<Malloc>, bursts::<Unchecked>, bursts::<Kmalloc>],
            ];
            for (test, passes) in TESTS.iter().zip(of_test) {
                cells.extend(by_turns(test, &passes, size, plan));
            }
        }
        Ok(Answer { cells })
    }

    /// Runs the passes of all systems by turns. The first turn is not counted.
    fn by_turns(test: &str, passes: &[Pass; 3], size: usize, plan: &Plan) -> Vec<Cell> {
        let cell = |system: &&str| Cell {
            test: test.to_owned(),
            system: (*system).to_owned(),
            size,
            ticks: Vec::new(),
            slow: 0.0,
        };
        let mut cells: Vec<Cell> = SYSTEMS.iter().map(cell).collect();
        for turn in 0..=plan.passes {
            for at in (0..passes.len()).map(|at| (at + turn) % passes.len()) {
                // A short pass brings the sheaf and the objects into the caches.
                passes[at](size, 10 * BURST);
                let before = slow();
                let start = ticks();
                passes[at](black_box(size), plan.pairs);
                let took = (ticks() - start) as f64;
                if turn > 0 {
                    cells[at].ticks.push(took / plan.pairs as f64);
                    cells[at].slow += (slow() - before) as f64 / (2 * plan.pairs * plan.passes) as f64;
                }
            }
        }
        cells
    }

    /// Calls so far that left the fast path, of all systems here.
    pub(super) fn slow() -> u64 {
        let counts = ashlar::total_counts();
        counts.alloc_slow + counts.free_slow + unchecked::slow_calls()
    }

    /// Allocates and frees at once.
    #[inline(never)]
    pub(super) fn pairs<C: Calls>(size: usize, pairs: usize) {
        for _ in 0..pairs {
            let object = black_box(C::alloc(size));
            // SAFETY: allocated in the line above, and freed once. Null needs no free, and every
            // free here ignores it.
            unsafe { C::free(object, size) };
        }
    }

    /// Allocates a few, and frees them in reverse order.
    #[inline(never)]
    pub(super) fn bursts<C: Calls>(size: usize, pairs: usize) {
        let mut objects = [core::ptr::null_mut(); BURST];
        for _ in 0..pairs / BURST {
            objects.fill_with(|| C::alloc(size));
            for object in black_box(objects).into_iter().rev() {
                // SAFETY: allocated above, and freed once, or null.
                unsafe { C::free(object, size) };
            }
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
