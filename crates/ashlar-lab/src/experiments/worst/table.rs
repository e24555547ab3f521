//! The figures of `bench worst` as text.

use crate::experiments::worst::plan::{Run, WorstRecord};

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
