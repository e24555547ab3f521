//! The machine, the build and the systems of a run, for its head.

use std::collections::BTreeMap;
use std::fs;

use crate::kit::machine::{cpu_model, glibc, kernel, own_build, thp, tsc_mhz};
use crate::kit::measure::allowed_cpus;
use crate::kit::record::{Host, Peer};
use crate::systems::{Kind, SystemInfo, peers};

/// Text that only a build with assertions contains, for the peers that cannot be asked. Written
/// backwards, so that the search in our own program does not find this table.
const DEBUG_MARKS: [(&str, &str); 3] = [
    ("mimalloc", "\"s%\" ta :deliaf noitressa :collamim"),
    ("snmalloc", " no }{ ni }{ :liaf tressa"),
    ("tcmalloc", ")ycilop ,ezis ,rtp(eziStcerroC"),
];

/// Describes this machine and the systems of any run.
pub(crate) fn of_run(chosen: &[&'static SystemInfo], rounds: usize, notes: &BTreeMap<&'static str, String>) -> Host {
    let program = std::env::current_exe().and_then(fs::read).unwrap_or_default();
    let peers = chosen.iter().filter_map(|info| {
        let note = notes.get(info.id).cloned().unwrap_or_default();
        let peer = match info.kind {
            Kind::Peer { .. } => Peer { version: peers::version(info.id), build: build_of(info.id, &program), note },
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
        page: (ashlar::PAGE_SIZE != 4096).then_some(ashlar::PAGE_SIZE),
        notes: chosen
            .iter()
            .filter(|info| info.kind == Kind::Ours)
            .filter_map(|info| Some((info.id.to_owned(), notes.get(info.id)?.clone())))
            .collect(),
        ..Host::default()
    }
}

/// How a peer was built: asked where it can be, else found in the program.
fn build_of(id: &str, program: &[u8]) -> String {
    let name = id.split('-').next().unwrap_or(id);
    let debug = match name {
        "glibc" => return "of the distribution".to_owned(),
        // Its crate compiles with -O2 in every profile, and its assertions are a feature that we do
        // not enable.
        "rpmalloc" => return "release".to_owned(),
        _ => peers::told_debug(name).unwrap_or_else(|| has_debug_mark(name, program)),
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
