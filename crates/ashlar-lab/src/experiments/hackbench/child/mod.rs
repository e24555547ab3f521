//! One measured process of hackbench: opens the heap, passes the messages, and tells what that
//! took.

mod counters;
mod message;
mod processes;
mod threads;

use crate::experiments::hackbench::child::counters::Counters;
use crate::experiments::hackbench::child::message::kinds;
use crate::experiments::hackbench::plan::{Answer, Figures, Work};
use crate::kit::counts::Counts;
use crate::kit::error::LabError;
use crate::kit::once;
use crate::systems::heap::Heap;
use crate::systems::trace::{Lists, MOST, Op, Profile, Trace};

/// Entry of the hidden command: measures `H`.
pub(crate) fn main<H: Heap>(plan: &str) -> Result<(), LabError> {
    let work: Work = once::plan(plan, "hackbench")?;
    once::answer(&measure::<H>(&work).map_err(LabError::Failed)?)
}

fn measure<H: Heap>(work: &Work) -> Result<Answer, String> {
    let boot = Trace::new(Profile::Caches, work.boot, 1);
    let open = || -> Result<H, String> {
        let mut all = kinds(&work.sizes);
        let own = all.len();
        if work.boot > 0.0 {
            // The trace has a cache of the same name as the heads, which it does not use before its
            // own messages.
            let head = all[0].clone();
            all.extend(boot.kinds.iter().filter(|kind| **kind != head).cloned());
        }
        let heap = H::open(&all)?;
        heap.thread_start();
        if work.boot > 0.0 {
            up_for_a_while(&heap, &boot, own)?;
        }
        // The first objects of each kind belong to the start.
        for kind in 0..=work.sizes.len() {
            let object = heap.alloc(kind);
            if object.is_null() {
                return Err("memory ended".to_owned());
            }
            // SAFETY: allocated just above.
            unsafe { heap.free(kind, object) };
        }
        Ok(heap)
    };
    if work.processes {
        // This process forks, so it must not have used the allocator before.
        let counters = Counters::start();
        let (elapsed, after) = processes::run::<H>(work)?;
        let (counts, usage) = counters.stop();
        let heap = open()?;
        let mut before = Figures::of(&heap);
        // What one process has at its start, all of them have.
        before.multiply(2 * (work.groups * work.fds) as u64);
        return Ok(Answer { note: heap.note(), elapsed, counts, usage, heap: None, before, after });
    }
    let heap = open()?;
    let before = Figures::of(&heap);
    let counted = heap.counts();
    let counters = Counters::start();
    let elapsed = threads::run(&heap, work)?;
    let (counts, usage) = counters.stop();
    // A message is two allocations and two frees.
    let operations = 4.0 * work.messages() as f64;
    let counted = counted.zip(heap.counts()).map(|(before, after)| Counts::between(&before, &after, operations));
    Ok(Answer { note: heap.note(), elapsed, counts, usage, heap: counted, before, after: Figures::of(&heap) })
}

/// Fills the heap as `boot` says; its kinds follow those of the messages, which are `own`. What is
/// live then stays for good.
fn up_for_a_while(heap: &impl Heap, boot: &Trace, own: usize) -> Result<(), String> {
    let mut objects: Vec<*mut u8> = vec![core::ptr::null_mut(); MOST];
    boot.boot(&mut Lists::new(MOST), &mut |op| {
        match op {
            Op::Alloc { kind, place } => {
                let object = heap.alloc(own + kind);
                if object.is_null() {
                    return Err("memory ended".to_owned());
                }
                // SAFETY: fresh, of so many bytes. A program writes what it allocates.
                unsafe { object.write_bytes(1, boot.kinds[kind].size) };
                *objects.get_mut(place).ok_or("too many objects; expected a smaller --boot")? = object;
            }
            // SAFETY: the trace frees what it has allocated, once.
            Op::Free { kind, place } => unsafe { heap.free(own + kind, objects[place]) },
            Op::Shrink | Op::Idle | Op::End(_) => {}
        }
        Ok(())
    })
}
