//! The counter block of the mails: what `perf stat` prints.
//!
//! The kernel counts for this process and for all threads and processes that it starts. What the
//! machine has no counter for, as most virtual machines have none for cycles and caches, is told as
//! `<not supported>`. Where the kernel refuses all of it (`kernel.perf_event_paranoid`), the
//! figures that every process may ask for (`getrusage`) stand in for those they cover.

use core::time::Duration;

use perf_event::events::{Event, Hardware, Software};
use perf_event::{Builder, Counter};

use crate::experiments::hackbench::plan::{Count, NAMES, Usage};

/// Counters that run.
pub(crate) struct Counters {
    counters: [Option<Counter>; NAMES.len()],
    before: Usage,
}

impl Counters {
    /// Starts to count.
    pub(crate) fn start() -> Self {
        fn open(event: impl Event + Clone) -> Option<Counter> {
            let with = |kernel: bool| {
                let mut builder = Builder::new(event.clone());
                builder.observe_self().any_cpu().inherit(true);
                if kernel {
                    builder.include_kernel();
                }
                builder.build().ok()
            };
            let mut counter = with(true).or_else(|| with(false))?;
            counter.enable().ok()?;
            Some(counter)
        }
        let counters = [
            open(Software::TASK_CLOCK),
            open(Software::CONTEXT_SWITCHES),
            open(Software::CPU_MIGRATIONS),
            open(Software::PAGE_FAULTS),
            open(Hardware::CPU_CYCLES),
            open(Hardware::INSTRUCTIONS),
            open(Hardware::BRANCH_INSTRUCTIONS),
            open(Hardware::BRANCH_MISSES),
            open(Hardware::CACHE_REFERENCES),
            open(Hardware::CACHE_MISSES),
        ];
        Self { counters, before: Usage::now() }
    }

    /// Stops, and tells what was counted, with user and system time.
    pub(crate) fn stop(self) -> (Vec<Count>, Usage) {
        let usage = Usage::now().since(&self.before);
        let fallback = [
            Some((usage.user + usage.sys).as_secs_f64() * 1e3),
            Some(usage.switches as f64),
            None,
            Some(usage.faults as f64),
        ];
        let counts = self.counters.into_iter().zip(NAMES).enumerate().map(|(at, (counter, name))| {
            let counted = counter.and_then(|mut counter| {
                let read = counter.read_count_and_time().ok()?;
                // Counters that take turns have run for a part of the time. One that never ran has
                // counted nothing.
                let share = read.time_enabled as f64 / read.time_running as f64;
                (read.time_running > 0).then_some(read.count as f64 * share)
            });
            // perf counts the clock in nanoseconds.
            let counted = if at == 0 { counted.map(|ns| ns / 1e6) } else { counted };
            let value = counted.or_else(|| fallback.get(at).copied().flatten());
            Count { name: name.to_owned(), value }
        });
        (counts.collect(), usage)
    }
}

impl Usage {
    fn now() -> Self {
        let mut sum = Self::default();
        for who in [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN] {
            // SAFETY: `rusage` is made of integers, for which all bits zero is a value.
            let mut of: libc::rusage = unsafe { core::mem::zeroed() };
            // SAFETY: the kernel writes one `rusage` to a live place of ours.
            if unsafe { libc::getrusage(who, &raw mut of) } == 0 {
                let time = |t: libc::timeval| {
                    Duration::new(t.tv_sec.cast_unsigned(), 1000 * u32::try_from(t.tv_usec).unwrap_or(0))
                };
                sum.user += time(of.ru_utime);
                sum.sys += time(of.ru_stime);
                sum.faults += (of.ru_minflt + of.ru_majflt).cast_unsigned();
                sum.switches += (of.ru_nvcsw + of.ru_nivcsw).cast_unsigned();
            }
        }
        sum
    }

    fn since(self, before: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            sys: self.sys.saturating_sub(before.sys),
            faults: self.faults.saturating_sub(before.faults),
            switches: self.switches.saturating_sub(before.switches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_are_started_meanwhile_are_counted() {
        let counters = Counters::start();
        let pages = 300;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Some of it may have been in use before.
                let memory = vec![1u8; 2 * pages * 4096];
                core::hint::black_box(&memory);
            });
        });
        let (counts, usage) = counters.stop();
        assert_eq!(counts.iter().map(|count| count.name.as_str()).collect::<Vec<_>>(), NAMES);
        let of = |name: &str| counts.iter().find(|count| count.name == name).and_then(|count| count.value);
        assert!(of("page-faults").unwrap() >= pages as f64, "{counts:?}");
        assert!(of("task-clock").unwrap() > 0.0 && of("context-switches").is_some());
        assert!(usage.faults >= pages as u64);
    }
}
