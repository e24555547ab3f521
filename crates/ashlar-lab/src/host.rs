//! The machine and the build, for the host block of a run.

use core::ffi::CStr;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::bench::allowed_cpus;
use crate::bench::parent::Plan;
use crate::bench::record::{Host, Peer};
use crate::bench::systems::{self, Kind, SystemInfo};

/// Text that only a build with assertions contains, for the peers that cannot be asked. Written backwards, so that the
/// search in our own program does not find this table.
const DEBUG_MARKS: [(&str, &str); 3] = [
    ("mimalloc", "\"s%\" ta :deliaf noitressa :collamim"),
    ("snmalloc", " no }{ ni }{ :liaf tressa"),
    ("tcmalloc", ")ycilop ,ezis ,rtp(eziStcerroC"),
];

/// Describes this machine and the systems of `plan`; `notes` is what the children said about themselves.
pub(crate) fn describe(plan: &Plan, notes: &BTreeMap<&'static str, String>) -> Host {
    let nodes_with_cpus = plan.nodes.map(|nodes| {
        // As ashlar spreads CPUs over fake nodes.
        let nodes: BTreeSet<usize> = allowed_cpus().into_iter().map(|cpu| cpu % nodes).collect();
        nodes.len()
    });
    Host {
        objects: plan.objects,
        nodes: plan.nodes,
        nodes_with_cpus,
        fragmented: plan.fragmented,
        warm_up: "one round of everything, and two to twelve passes right before each measured pass".to_owned(),
        ..of_run(&plan.systems, plan.rounds, notes)
    }
}

/// Describes this machine and the systems of any run.
pub(crate) fn of_run(chosen: &[&'static SystemInfo], rounds: usize, notes: &BTreeMap<&'static str, String>) -> Host {
    let program = std::env::current_exe().and_then(fs::read).unwrap_or_default();
    let peers = chosen.iter().filter_map(|info| {
        let note = notes.get(info.id).cloned().unwrap_or_default();
        let peer = match info.kind {
            Kind::Peer { .. } => Peer { version: systems::version(info.id), build: build_of(info.id, &program), note },
            // A kernel says its release itself, when it boots.
            Kind::Linux => Peer {
                version: format!("Linux {note}"),
                build: "User-Mode Linux".to_owned(),
                note: "one CPU; its interrupt flag is a variable".to_owned(),
            },
            Kind::Ours | Kind::Limit => return None,
        };
        Some((info.id.to_owned(), peer))
    });
    Host {
        cpu_model: cpu_model(),
        cpus: allowed_cpus().len(),
        arch: std::env::consts::ARCH.to_owned(),
        kernel: kernel(),
        glibc: glibc(),
        tsc_mhz: tsc_mhz(),
        thp: thp(),
        ashlar_version: env!("CARGO_PKG_VERSION").to_owned(),
        ashlar_mode: ashlar::mode().to_string(),
        rustc: env!("ASHLAR_RUSTC").to_owned(),
        build: own_build(),
        rounds,
        systems: chosen.iter().map(|info| info.id.to_owned()).collect(),
        peers: peers.collect(),
        notes: chosen
            .iter()
            .filter(|info| info.kind == Kind::Ours)
            .filter_map(|info| Some((info.id.to_owned(), notes.get(info.id)?.clone())))
            .collect(),
        ..Host::default()
    }
}

/// Profile of the tool.
pub(crate) fn own_build() -> String {
    let asserts = if cfg!(debug_assertions) { "debug" } else { "release" };
    format!("{asserts}, opt-level {}", env!("ASHLAR_OPT_LEVEL"))
}

/// How a peer was built: asked where it can be, else found in the program.
fn build_of(id: &str, program: &[u8]) -> String {
    let name = id.split('-').next().unwrap_or(id);
    let debug = match name {
        "glibc" => return "of the distribution".to_owned(),
        // Its crate compiles with -O2 in every profile, and its assertions are a feature that we do not enable.
        "rpmalloc" => return "release".to_owned(),
        _ => systems::told_debug(name).unwrap_or_else(|| has_debug_mark(name, program)),
    };
    match (debug, cfg!(debug_assertions)) {
        (true, _) => "DEBUG (its figures mean nothing)",
        (false, true) => "without assertions, by a debug profile",
        (false, false) => "release",
    }
    .to_owned()
}

fn has_debug_mark(name: &str, program: &[u8]) -> bool {
    DEBUG_MARKS.iter().filter(|(of, _)| *of == name).any(|(_, reversed)| {
        let mark: Vec<u8> = reversed.bytes().rev().collect();
        program.windows(mark.len()).any(|window| window == mark)
    })
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// Name of the processor.
pub(crate) fn cpu_model() -> String {
    let info = read("/proc/cpuinfo").unwrap_or_default();
    info.lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or_else(unknown, |(_, model)| model.trim().to_owned())
}

/// Release of the running kernel.
pub(crate) fn kernel() -> String {
    read("/proc/sys/kernel/osrelease").unwrap_or_else(unknown)
}

/// Setting of transparent huge pages.
pub(crate) fn thp() -> String {
    let text = read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or_else(unknown, |(setting, _)| setting.to_owned())
}

/// Version of the C library that this process runs with.
#[cfg(target_env = "gnu")]
pub(crate) fn glibc() -> String {
    // SAFETY: takes nothing and returns a constant string that ends with a zero byte.
    unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy().into_owned()
}

/// Version of the C library that this process runs with.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn glibc() -> String {
    "none".to_owned()
}

/// Frequency of the time-stamp counter against the monotonic clock.
#[cfg(target_arch = "x86_64")]
pub(crate) fn tsc_mhz() -> Option<f64> {
    use crate::bench::ticks;
    use core::time::Duration;
    use std::time::Instant;
    let (clock, start) = (Instant::now(), ticks());
    std::thread::sleep(Duration::from_millis(50));
    let (elapsed, cycles) = (clock.elapsed(), ticks() - start);
    Some((cycles as f64 / elapsed.as_secs_f64() / 1e5).round() / 10.0)
}

/// Absent where there is no time-stamp counter.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn tsc_mhz() -> Option<f64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_found_in_a_program_and_the_table_itself_is_none() {
        assert!(has_debug_mark("snmalloc", b"xx assert fail: {} in {} on {}"));
        assert!(!has_debug_mark("snmalloc", DEBUG_MARKS[1].1.as_bytes()));
        assert!(!has_debug_mark("glibc", b"assert fail: {} in {} on "));
    }
}
