//! The worst case of each call: `ashlar bench worst`.
//!
//! The tests A to F time thousands of calls together; who has a deadline asks for the slowest of them. Here each call is timed by
//! itself, on heaps that are made to be bad, and what is printed is the least, the percentiles and the most. One process serves one
//! engine, one call after the other on one pinned thread, as in `child`.
//!
//! What the system does to the program (interrupts, and on a virtual machine the host) is in the figures: the most of many
//! thousand calls is mostly that, and the same for all systems. What an engine answers for is up to p99.9, and the bound on
//! instructions in docs/engines.md.

pub(crate) mod child;

use crate::kit::machine;
use crate::kit::measure;
use crate::kit::once;
use crate::kit::output;
use crate::kit::progress;
use crate::systems::engines::engines;
use ashlar::Engine;
use serde::{Deserialize, Serialize};

use crate::kit::error::CliError;
use crate::registry::args::WorstArgs;

/// What a child is told, as its argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Bytes of the objects.
    pub(crate) sizes: Vec<usize>,
    /// Objects of the fragmented heap, of which every second is freed.
    pub(crate) live: usize,
    /// Calls of each kind with warm caches.
    pub(crate) samples: usize,
    /// Calls of each kind with cold caches.
    pub(crate) cold: usize,
    /// MiB that are read before each of those.
    pub(crate) sweep_mib: usize,
}

/// The distribution of one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorstRecord {
    pub(crate) system: String,
    /// `kmalloc`, `kfree`, `kmem_cache_alloc`, `kmem_cache_free`.
    pub(crate) call: String,
    /// Bytes.
    pub(crate) size: usize,
    /// `warm` or `cold`.
    pub(crate) caches: String,
    pub(crate) samples: usize,
    pub(crate) min: u64,
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) p99_9: u64,
    pub(crate) max: u64,
}

/// A run as `--json` writes it.
#[derive(Debug, Serialize, Deserialize)]
struct Run {
    cpu_model: String,
    kernel: String,
    tsc_mhz: Option<f64>,
    ashlar_version: String,
    build: String,
    unit: String,
    /// What the clock itself takes at least; part of every figure.
    clock: u64,
    plan: Plan,
    records: Vec<WorstRecord>,
}

/// What a child prints.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    clock: u64,
    records: Vec<WorstRecord>,
}

/// `ashlar bench worst`.
pub(crate) fn run(args: &WorstArgs) -> Result<(), CliError> {
    let systems = engines(&args.systems)?;
    if let Some(size) = args.sizes.0.iter().find(|&&size| size < child::SMALLEST) {
        let expected = child::SMALLEST;
        return Err(CliError::option("--sizes", format_args!("size {size}: expected at least {expected} bytes")));
    }
    let json = args.json.as_deref().map(|path| output::create("--json", path)).transpose()?;
    let plan = Plan {
        sizes: args.sizes.0.clone(),
        live: args.live as usize,
        samples: args.samples as usize,
        cold: args.cold as usize,
        sweep_mib: usize::from(args.sweep),
    };
    let (mut records, mut clock) = (Vec::new(), u64::MAX);
    let bar = progress::progress(systems.len() as u64);
    for engine in systems {
        bar.set_message(engine.id());
        let answer = ask(engine, &plan).map_err(|error| CliError::Failed(format!("{}: {error}", engine.id())))?;
        records.extend(answer.records);
        clock = clock.min(answer.clock);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let run = Run {
        cpu_model: machine::cpu_model(),
        kernel: machine::kernel(),
        tsc_mhz: machine::tsc_mhz(),
        ashlar_version: env!("CARGO_PKG_VERSION").to_owned(),
        build: machine::own_build(),
        unit: measure::UNIT_OF_TICKS.to_owned(),
        clock,
        plan,
        records,
    };
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &run).map_err(|error| CliError::Failed(format!("--json: {error}")))?;
    }
    output::print(&table(&run))
}

/// Has a child measure `engine`.
fn ask(engine: Engine, plan: &Plan) -> Result<Answer, String> {
    // A background thread has no place beside a deadline.
    once::ask(&["bench-worst-child"], plan, &[], &format!("reaper=off,engine={}", engine.id()))
}

/// The figures, a block for each call, size and state of the caches.
fn table(run: &Run) -> String {
    let mhz = run.tsc_mhz.map_or_else(String::new, |mhz| format!(" at {mhz} MHz"));
    let mut text = format!(
        "Worst cases on {}, Linux {}, ashlar {} ({})\n\
         {}{mhz}; the clock itself takes {}, which is in every figure\n\
         fragmented heap: {} objects of 8 bytes less, every second freed; cold: {} MiB read before each call\n",
        run.cpu_model,
        run.kernel,
        run.ashlar_version,
        run.build,
        run.unit,
        run.clock,
        run.plan.live,
        run.plan.sweep_mib
    );
    let mut head = (String::new(), 0, String::new());
    let mut sorted: Vec<&WorstRecord> = run.records.iter().collect();
    let calls = ["kmalloc", "kfree", "kmem_cache_alloc", "kmem_cache_free"];
    let place = |record: &WorstRecord| calls.iter().position(|call| *call == record.call);
    // Stable: within a block the systems stay in the order of the run.
    sorted.sort_by_key(|record| (record.size, record.caches == "cold", place(record)));
    for record in sorted {
        let this = (record.call.clone(), record.size, record.caches.clone());
        if this != head {
            let title = format!("{}, {} bytes, {}, {} calls", this.0, this.1, this.2, record.samples);
            text += &format!("\n{title:<46} {:>8} {:>8} {:>8} {:>8} {:>9}\n", "min", "p50", "p99", "p99.9", "max");
            head = this;
        }
        text += &format!(
            "  {:<44} {:>8} {:>8} {:>8} {:>8} {:>9}\n",
            record.system, record.min, record.p50, record.p99, record.p99_9, record.max
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_taken_once_and_others_are_refused_with_the_known_ones() {
        assert_eq!(engines("slob, ashlar,slob").unwrap(), [Engine::Slob, Engine::Sheaves]);
        assert_eq!(engines("all").unwrap(), Engine::ALL);
        let message = engines("slob,glibc").unwrap_err().to_string();
        assert!(message.contains("--systems: `glibc` is no engine") && message.contains("slob-seg"), "{message}");
    }
}
