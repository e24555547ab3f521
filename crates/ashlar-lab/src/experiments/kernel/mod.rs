//! `ashlar-lab kernel`: the lab's tests in ring 0, in a kernel of our own.
//!
//! `examples/kernel` is a kernel that has ashlar as its allocator, set up by the code of
//! docs/kernel.md. It is built here, booted twice by QEMU, and prints its figures on the serial
//! line. The machine is emulated, so no figure is a time of real hardware:
//!
//! | boot | what its figures are |
//! |---|---|
//! | `icount` | instructions that all CPUs executed, which take turns on one host thread |
//! | `threads` | ticks of the host, with a host thread for each CPU: they contain the emulation |
//!
//! After the tests all CPUs work at random, interrupted by timers whose handlers allocate and free.
//! Every object is checked, and in the end none may be left.

pub(crate) mod args;
mod child;
mod plan;
mod table;
mod targets;

use crate::experiments::kernel::args::KernelArgs;
use crate::experiments::kernel::plan::{Boot, Clock, Plan};
use crate::experiments::kernel::targets::Verdict;
use crate::kit::error::LabError;
use crate::kit::output::{self, create};
use crate::kit::progress;

/// `ashlar-lab kernel`.
pub(crate) fn run(args: &KernelArgs) -> Result<(), LabError> {
    let plan = Plan::new(args)?;
    let json = args.json.as_deref().map(|path| create("--json", path)).transpose()?;
    let kernel = child::build()?;
    let bar = progress::progress(Clock::ALL.len() as u64);
    let mut boots: Vec<Boot> = Vec::new();
    for clock in Clock::ALL {
        boots.push(child::boot(&kernel, &plan, clock).map_err(LabError::Failed)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let report = plan::report(&plan, &boots, child::version());
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &report).map_err(|error| LabError::Failed(format!("--json: {error}")))?;
    }
    let verdict = targets::check(&report, &boots);
    output::print(&(table::render(&report, &plan, &boots) + &verdict.text))?;
    let failed = |why: &str| Err(LabError::Failed(why.to_owned()));
    match verdict {
        Verdict { sound: false, .. } => failed("objects were damaged or lost"),
        Verdict { reached: false, .. } if args.check_targets => failed("a target was missed"),
        Verdict { .. } => Ok(()),
    }
}
