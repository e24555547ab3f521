//! The figures of `bench worst` as text.

use crate::experiments::worst::plan::{Run, WorstRecord};

/// Calls of ours, in the order of the blocks.
const CALLS: [&str; 4] = ["kmalloc", "kfree", "kmem_cache_alloc", "kmem_cache_free"];

/// The figures, a block for each call, size and state of the caches.
pub(crate) fn render(run: &Run) -> String {
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
    // A malloc stands beside kmalloc.
    let block = |record: &WorstRecord| match &*record.call {
        "malloc" => 0,
        "free" => 1,
        call => CALLS.iter().position(|known| *known == call).unwrap_or(CALLS.len()),
    };
    let both = |at: usize| {
        let pair = [("kmalloc", "malloc"), ("kfree", "free")];
        let has = |call: &str| run.records.iter().any(|record| record.call == call);
        match pair.get(at) {
            Some((kernel, c)) if has(kernel) && has(c) => format!("{kernel} or {c}"),
            Some((_, c)) if has(c) => (*c).to_owned(),
            _ => CALLS.get(at).map_or_else(String::new, |call| (*call).to_owned()),
        }
    };
    let mut head = None;
    let mut sorted: Vec<&WorstRecord> = run.records.iter().collect();
    // Stable: within a block the systems stay in the order of the run.
    sorted.sort_by_key(|record| (record.size, record.caches == "cold", block(record)));
    for record in sorted {
        let this = Some((block(record), record.size, record.caches.clone()));
        if this != head {
            let (call, samples) = (both(block(record)), record.samples);
            let title = format!("{call}, {} bytes, {}, {samples} calls", record.size, record.caches);
            text += &format!("\n{title:<50} {:>8} {:>8} {:>8} {:>8} {:>9}\n", "min", "p50", "p99", "p99.9", "max");
            head = this;
        }
        text += &format!(
            "  {:<48} {:>8} {:>8} {:>8} {:>8} {:>9}\n",
            record.system, record.min, record.p50, record.p99, record.p99_9, record.max
        );
    }
    text
}
