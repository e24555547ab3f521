//! The timed loops of `bench bulk`, compiled once for each system, and one measured process.
//!
//! A loop allocates `bulk` objects into an array and frees them, again and again, as the kernel's
//! `slab_bulk_test01`: one by one (`loop`), or by one call each (`call`). The figure is for one
//! object, allocation and free together. No object is touched.
//!
//! In the worst case (`slab_bulk_test03`) no two neighbours of an array are of one slab: a heap of
//! objects is put in such an order, freed bulk by bulk, and allocated again.
//!
//! `keep` is the loop of DPDK's `mempool_perf_autotest`: a number of objects of 2048 bytes is
//! taken, bulk by bulk, then put back. The test gives its pool the largest cache there is; so our
//! cache has the largest sheaves.

pub(crate) mod dpdk;

use core::hint::black_box;

use crate::experiments::bulk::plan::{Answer, Cell, KEPT, KEPT_BULKS, KEPT_SIZE, Plan, Test};
use crate::kit::error::LabError;
use crate::kit::measure::{self, allowed_cpus, pin, ticks};
use crate::kit::once;
use crate::systems::traits::{Handle, Setup, System};

/// Distance, in objects of the heap by address, of two neighbours in the worst case: more than a
/// slab holds.
const APART: usize = 256;

/// Memory ended; nothing is printed then.
#[derive(Debug)]
struct OutOfMemory;

/// Entry of the hidden command: measures `S`.
pub(crate) fn main<S: System>(plan: &str) -> Result<(), LabError> {
    let plan: Plan = once::plan(plan, "bench bulk")?;
    pin(*allowed_cpus().last().unwrap_or(&0));
    let setup = Setup {
        objects: plan.objects.max(plan.spread),
        cpus: 1,
        sizes: vec![plan.size, KEPT_SIZE],
        fragmented: 0,
        holes: Vec::new(),
        large_sheaves: vec![KEPT_SIZE],
    };
    let system = S::new(&setup, 1).map_err(LabError::Failed)?;
    system.thread_start(0);
    let cells = measure(&system, &plan).map_err(|OutOfMemory| LabError::Failed("memory ended".to_owned()))?;
    once::answer(&Answer { note: system.note(), cells })
}

fn measure<S: System>(system: &S, plan: &Plan) -> Result<Vec<Cell>, OutOfMemory> {
    let mut handle = system.handle(0, plan.size);
    let calls = <S::Handle<'_> as Handle>::BULK;
    let mut cells = Vec::new();
    let mut add = |test, bulk, pass: &mut dyn FnMut() -> Result<f64, OutOfMemory>| {
        // The first one warms up.
        pass()?;
        let samples = (0..plan.passes).map(|_| pass()).collect::<Result<_, _>>()?;
        cells.push(Cell { test, bulk, samples });
        Ok(())
    };
    add(Test::Single, 1, &mut || singles(&mut handle, plan.objects))?;
    for &bulk in &plan.bulks {
        add(Test::Loop, bulk, &mut || looped(&mut handle, bulk, plan.objects))?;
        if calls {
            add(Test::Call, bulk, &mut || called(&mut handle, bulk, plan.objects))?;
        }
    }
    let mut heap = Spread::new(&mut handle, plan.spread)?;
    for &bulk in &plan.bulks {
        add(Test::WorstLoop, bulk, &mut || heap.pass(&mut handle, bulk, false))?;
        if calls {
            add(Test::WorstCall, bulk, &mut || heap.pass(&mut handle, bulk, true))?;
        }
    }
    // SAFETY: the objects of the heap, each once.
    heap.0.drain(..).for_each(|object| unsafe { handle.free(object) });
    let mut handle = system.handle(0, KEPT_SIZE);
    for keep in KEPT {
        for bulk in KEPT_BULKS {
            add(Test::Keep(keep), bulk, &mut || kept(&mut handle, keep, bulk, plan.objects))?;
        }
    }
    Ok(cells)
}

/// Ticks for one of `objects` objects.
fn each(start: u64, objects: usize) -> f64 {
    (ticks() - start) as f64 / objects as f64
}

#[inline(never)]
fn singles(handle: &mut impl Handle, objects: usize) -> Result<f64, OutOfMemory> {
    let start = ticks();
    for _ in 0..objects {
        let object = measure::hide(handle.alloc());
        if object.is_null() {
            return Err(OutOfMemory);
        }
        // SAFETY: allocated just above.
        unsafe { handle.free(object) };
    }
    Ok(each(start, objects))
}

#[inline(never)]
fn alloc_each(handle: &mut impl Handle, out: &mut [*mut u8]) -> Result<(), OutOfMemory> {
    for place in &mut *out {
        *place = handle.alloc();
        if place.is_null() {
            return Err(OutOfMemory);
        }
    }
    black_box(out);
    Ok(())
}

/// Frees live objects of the handle's system and size, each once.
#[inline(never)]
fn free_each(handle: &mut impl Handle, objects: &[*mut u8]) {
    for &object in objects {
        // SAFETY: the callers are in this file: they pass what they have just allocated, and forget
        // it.
        unsafe { handle.free(object) };
    }
}

fn looped(handle: &mut impl Handle, bulk: usize, objects: usize) -> Result<f64, OutOfMemory> {
    let mut array = vec![core::ptr::null_mut(); bulk];
    let turns = objects.div_ceil(bulk);
    let start = ticks();
    for _ in 0..turns {
        alloc_each(handle, &mut array)?;
        free_each(handle, &array);
    }
    Ok(each(start, turns * bulk))
}

fn called(handle: &mut impl Handle, bulk: usize, objects: usize) -> Result<f64, OutOfMemory> {
    let mut array = vec![core::ptr::null_mut(); bulk];
    let turns = objects.div_ceil(bulk);
    let start = ticks();
    for _ in 0..turns {
        if !handle.alloc_bulk(&mut array) {
            return Err(OutOfMemory);
        }
        // SAFETY: allocated just above.
        unsafe { handle.free_bulk(black_box(&array)) };
    }
    Ok(each(start, turns * bulk))
}

fn kept<H: Handle>(handle: &mut H, keep: usize, bulk: usize, objects: usize) -> Result<f64, OutOfMemory> {
    let mut array = vec![core::ptr::null_mut(); keep];
    let turns = objects.div_ceil(keep);
    let start = ticks();
    for _ in 0..turns {
        for part in array.chunks_mut(bulk) {
            if !H::BULK {
                alloc_each(handle, part)?;
            } else if !handle.alloc_bulk(part) {
                return Err(OutOfMemory);
            }
        }
        for part in black_box(&array).chunks(bulk) {
            if H::BULK {
                // SAFETY: allocated above in this turn, each once.
                unsafe { handle.free_bulk(part) };
            } else {
                free_each(handle, part);
            }
        }
    }
    Ok(each(start, turns * keep))
}

/// The heap of the worst case.
struct Spread(Vec<*mut u8>);

impl Spread {
    fn new(handle: &mut impl Handle, objects: usize) -> Result<Spread, OutOfMemory> {
        let mut heap = vec![core::ptr::null_mut(); objects];
        alloc_each(handle, &mut heap)?;
        Ok(Spread(heap))
    }

    /// Puts the objects in such an order that neighbours are far from each other, frees all, and
    /// allocates as many again.
    fn pass<H: Handle>(&mut self, handle: &mut H, bulk: usize, calls: bool) -> Result<f64, OutOfMemory> {
        self.0 = apart(core::mem::take(&mut self.0));
        let start = ticks();
        for part in self.0.chunks(bulk) {
            if calls {
                // SAFETY: the objects of the heap, each once; what follows replaces them.
                unsafe { handle.free_bulk(part) };
            } else {
                free_each(handle, part);
            }
        }
        for part in self.0.chunks_mut(bulk) {
            if !calls {
                alloc_each(handle, part)?;
            } else if !handle.alloc_bulk(part) {
                return Err(OutOfMemory);
            }
        }
        Ok(each(start, self.0.len()))
    }
}

/// An order in which neighbours are [`APART`] objects from each other, by address.
fn apart(mut heap: Vec<*mut u8>) -> Vec<*mut u8> {
    heap.sort_unstable();
    let mut order = Vec::with_capacity(heap.len());
    for first in 0..APART.min(heap.len()) {
        order.extend(heap[first..].iter().step_by(APART));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_the_worst_case_are_of_different_slabs_and_nothing_is_lost() {
        for objects in [1, 255, 256, 1000, 16384] {
            let heap: Vec<*mut u8> = (0..objects).rev().map(|at| (4096 + at * 256) as *mut u8).collect();
            let order = apart(heap.clone());
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().eq(heap.iter().rev()), "{objects}");
            let near = order.windows(2).filter(|two| (two[0] as usize).abs_diff(two[1] as usize) < 16 << 10).count();
            // Where a column ends, the next one begins at the other end of the heap, unless there
            // is one row alone.
            assert!(objects <= APART || near == 0, "{objects}: {near}");
        }
    }
}
