//! The run as data and as text: the lines of the mail, and beside each difference how sure it is.

use serde::Serialize;

use crate::experiments::forward::plan::modes::Mode;
use crate::experiments::forward::plan::tally::{self, Reason};
use crate::experiments::forward::plan::{Outcome, PASSES, Plan};
use crate::kit::counts::Counts;
use crate::kit::measure::allowed_cpus;
use crate::kit::record::{Host, Record};
use crate::kit::statistics::{self, round2};
use crate::kit::terminal::{width, wrapped};
use crate::systems::host;

/// Unit of the records.
const UNIT: &str = "ns_per_packet";

/// What `--json` writes: host and records as `ashlar bench` does, and the differences.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) host: Host,
    pub(crate) records: Vec<Record>,
    /// Confidence of all intervals together, in per cent.
    pub(crate) confidence: f64,
    pub(crate) differences: Vec<Difference>,
}

/// One case against another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Difference {
    pub(crate) system: String,
    pub(crate) mode: String,
    pub(crate) base_system: String,
    pub(crate) base_mode: String,
    /// Packets per second more.
    pub(crate) pps: f64,
    /// The same in per cent of the base.
    pub(crate) percent: f64,
    /// Nanoseconds for a packet more; negative is faster.
    pub(crate) ns: f64,
    /// Between what `ns` lies; absent where the rounds are too few to say.
    pub(crate) interval_ns: Option<[f64; 2]>,
    /// Between what `percent` lies.
    pub(crate) interval_percent: Option<[f64; 2]>,
    /// Zero is outside of the interval.
    pub(crate) significant: bool,
    pub(crate) rounds: usize,
}

impl Run {
    pub(crate) fn new(plan: &Plan, outcome: &Outcome) -> Self {
        let test = if plan.setup.veth { "forward-veth" } else { "forward-memory" };
        let records = plan.cases.iter().enumerate().map(|(at, case)| {
            let figures = &outcome.figures[at];
            Record {
                test: test.to_owned(),
                system: case.system.id.to_owned(),
                mode: Some(case.mode.id().to_owned()),
                size: plan.setup.size,
                cpus: plan.cpus(),
                unit: UNIT.to_owned(),
                min: round2(figures.iter().copied().fold(f64::INFINITY, f64::min)),
                median: round2(statistics::median(figures)),
                runs: figures.len(),
                oversubscribed: plan.cpus() > allowed_cpus().len(),
                counts: Counts::mean(&outcome.counts[at]),
                samples: figures.iter().copied().map(round2).collect(),
                ..Record::default()
            }
        });
        let differences = plan.comparisons().into_iter().map(|(this, base)| {
            let interval = outcome.difference(this, base, outcome.risk);
            // All from one pair of figures, so that they agree: the base, and the median of the
            // differences.
            let slow = 1e9 / outcome.median(base);
            let rate = |ns: f64| 1e9 / (outcome.median(base) + ns);
            let percent = |ns: f64| round2((rate(ns) / slow - 1.0) * 100.0);
            let fast = rate(interval.median);
            let name = |at: usize| (plan.cases[at].system.id.to_owned(), plan.cases[at].mode.id().to_owned());
            let ((system, mode), (base_system, base_mode)) = (name(this), name(base));
            Difference {
                system,
                mode,
                base_system,
                base_mode,
                pps: (fast - slow).round(),
                percent: percent(interval.median),
                ns: round2(interval.median),
                interval_ns: interval.low.is_finite().then(|| [round2(interval.low), round2(interval.high)]),
                // More nanoseconds are fewer packets.
                interval_percent: interval.low.is_finite().then(|| [percent(interval.high), percent(interval.low)]),
                significant: interval.is_significant(),
                rounds: outcome.figures[this].len(),
            }
        });
        Self {
            host: describe(plan, outcome),
            records: records.collect(),
            confidence: plan.confidence,
            differences: differences.collect(),
        }
    }
}

fn describe(plan: &Plan, outcome: &Outcome) -> Host {
    let rounds = outcome.figures.first().map_or(0, Vec::len);
    Host {
        objects: plan.packets,
        warm_up: "a quarter of a pass in each process, every packet compared".to_owned(),
        ..host::of_run(&plan.systems, rounds, &outcome.notes)
    }
}

/// How sure a difference is.
pub(crate) fn sureness(difference: &Difference, confidence: f64) -> String {
    match difference.interval_ns {
        None => format!("{} rounds are too few to know the noise", difference.rounds),
        Some([low, high]) => {
            let verdict = if difference.significant { "significant" } else { "below the accuracy of this run" };
            format!("{low:+.2} to {high:+.2} ns at {confidence} %: {verdict}")
        }
    }
}

/// 2049166 as `2 049 166`.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// The report for people.
pub(crate) fn render(plan: &Plan, outcome: &Outcome, run: &Run) -> String {
    let (setup, host) = (&plan.setup, &run.host);
    let place = if setup.veth { "between network namespaces (veth, packet sockets)" } else { "in memory" };
    let cleaner = if setup.other_cpu { "on another CPU" } else { "by the forwarder" };
    let flows = if setup.flows == 1 { "1 flow".to_owned() } else { format!("{} flows", setup.flows) };
    let rounds = outcome.figures.first().map_or(0, Vec::len);
    let end = if outcome.settled { ", ended because every difference is clear" } else { "" };
    let mut text = format!(
        "IPv4 forwarding {place}: frames of {} bytes, {flows}, {} routes, sent packets freed {cleaner}\n\
         heads of 256 bytes beside {} live objects of other caches of that size\n\
         {}, Linux {}, glibc {}, ashlar {} ({}; {})\n\
         {rounds} rounds of {PASSES} passes of {} packets{end}; median of the rounds' medians\n",
        setup.size,
        setup.routes,
        setup.others,
        host.cpu_model,
        host.kernel,
        host.glibc,
        host.ashlar_version,
        host.ashlar_mode,
        host.build,
        plan.packets,
    );
    for (id, peer) in &host.peers {
        text += &format!("{id} {}, {}\n", peer.version, peer.build);
    }
    let title = |mode: &str| {
        let mode = Mode::ALL.into_iter().find(|known| known.id() == mode);
        mode.map_or_else(String::new, |mode| mode.title(plan.bulk))
    };
    for system in &plan.systems {
        text += &format!("\n{}\n", system.id);
        for (at, case) in plan.cases.iter().enumerate().filter(|(_, case)| case.system.id == system.id) {
            let ns = outcome.median(at);
            let counts = Counts::mean(&outcome.counts[at]).map_or_else(String::new, |counts| {
                format!("     slow paths {:.3}, locks {:.3} a packet", counts.slow, counts.locks)
            });
            let slabs = match outcome.merged[at] {
                None => "",
                Some(true) => ", slabs shared with others",
                Some(false) => ", slabs of their own",
            };
            let name = case.mode.title(plan.bulk);
            text += &format!(" * {name:<26}: {:>10} pps {ns:>8.2} ns\n", grouped(1e9 / ns));
            if !counts.is_empty() {
                text += &format!("{counts}{slabs}\n");
            }
            for difference in &run.differences {
                if (difference.system.as_str(), difference.mode.as_str()) != (system.id, case.mode.id()) {
                    continue;
                }
                let base = match difference.base_system == system.id {
                    true => title(&difference.base_mode),
                    false => format!("{}, {}", difference.base_system, title(&difference.base_mode)),
                };
                text += &format!(
                    "   - Diff to \"{base}\": {:+}pps and {:+.2}ns ({:+.1} %), {}\n",
                    difference.pps,
                    difference.ns,
                    difference.percent,
                    sureness(difference, run.confidence)
                );
            }
        }
    }
    wrapped(&(text + &conservation(plan, outcome)), width())
}

/// What became of all packets.
fn conservation(plan: &Plan, outcome: &Outcome) -> String {
    let sum = |of: fn(&tally::Tally) -> u64| outcome.tallies.iter().map(of).sum::<u64>();
    let (received, forwarded) = (sum(|tally| tally.received), sum(|tally| tally.forwarded));
    let mut text = format!("\n{received} packets: {forwarded} forwarded");
    for reason in Reason::ALL {
        let dropped: u64 = outcome.tallies.iter().map(|tally| tally.dropped[reason as usize]).sum();
        if dropped > 0 {
            text += &format!(",\n  {dropped} dropped ({})", reason.name());
        }
    }
    let known = plan.systems.iter().filter(|system| system.has_caches()).map(|system| system.id);
    let known: Vec<_> = known.collect();
    if !known.is_empty() {
        text += &format!("; every object given back ({})", known.join(", "));
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        assert_eq!([7.0, 999.4, 1000.0, 2_049_166.0].map(grouped), ["7", "999", "1 000", "2 049 166"]);
    }
}
