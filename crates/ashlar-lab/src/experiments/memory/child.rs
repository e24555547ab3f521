//! One measured process of `bench memory`: replays the trace on its heap and reads the figures.

use core::time::Duration;

use crate::experiments::memory::plan::{Answer, Moment, Plan};
use crate::kit::error::LabError;
use crate::kit::memory::anonymous_kib;
use crate::kit::once;
use crate::systems::heap::Heap;
use crate::systems::trace::{Lists, MOST, Op, Trace};

/// Operations between two looks at resident memory: a look costs a file of the kernel.
const LOOK: usize = 4096;

/// Entry of the hidden command: measures `H`.
pub(crate) fn main<H: Heap>(plan: &str) -> Result<(), LabError> {
    let plan: Plan = once::plan(plan, "bench memory")?;
    once::answer(&replay::<H>(&plan).map_err(LabError::Failed)?)
}

fn replay<H: Heap>(plan: &Plan) -> Result<Answer, String> {
    let trace = Trace::new(plan.profile, plan.scale, plan.seed);
    let heap = H::open(&trace.kinds)?;
    heap.thread_start();
    // Lists are written before the start, so that they are in the figure before the trace.
    let mut objects: Vec<*mut u8> = vec![core::ptr::dangling_mut(); MOST];
    let mut lists = Lists::new(MOST);
    let mut moments: Vec<Moment> = Vec::with_capacity(16);
    let mut shrink = None;
    let (mut live, mut peak_live, mut peak_rss, mut count) = (0, 0, 0, 0usize);
    let before = anonymous_kib();
    let rss = || (anonymous_kib().saturating_sub(before) * 1024) as usize;
    let hash = trace.run(&mut lists, &mut |op| {
        match op {
            Op::Alloc { kind, place } => {
                let size = trace.kinds[kind].size;
                let object = heap.alloc(kind);
                if object.is_null() {
                    return Err("memory ended".to_owned());
                }
                // SAFETY: fresh, of `size` bytes. A program writes what it allocates.
                unsafe { object.write_bytes(place as u8, size) };
                *objects.get_mut(place).ok_or("the trace has too many objects; expected a smaller --scale")? = object;
                live += size;
                peak_live = peak_live.max(live);
            }
            Op::Free { kind, place } => {
                let (object, size) = (objects[place], trace.kinds[kind].size);
                // SAFETY: the trace frees what it has allocated, once; the first and the last byte
                // are those written above.
                let kept = unsafe { object.read() == place as u8 && object.add(size - 1).read() == place as u8 };
                if !kept {
                    return Err(format!("an object of {size} bytes was overwritten"));
                }
                // SAFETY: as above.
                unsafe { heap.free(kind, object) };
                live -= size;
            }
            Op::Shrink => shrink = heap.shrink().map(str::to_owned),
            Op::Idle => std::thread::sleep(Duration::from_millis(plan.idle)),
            Op::End(phase) => {
                let slab = heap.slab();
                let rss = rss();
                peak_rss = peak_rss.max(rss);
                moments.push(Moment {
                    phase: phase.to_owned(),
                    live,
                    slab: slab.map(|slab| slab.bytes),
                    metadata: slab.map(|slab| slab.metadata),
                    rss,
                    peak_live,
                    peak_rss,
                });
            }
        }
        count += 1;
        if count.is_multiple_of(LOOK) {
            peak_rss = peak_rss.max(rss());
        }
        Ok(())
    })?;
    Ok(Answer { note: heap.note(), shrink, hash, moments })
}
