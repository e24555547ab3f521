//! The systems that the lab can run: ours, the peers, the limit that none can beat, and the
//! originals.
//!
//! Here is what is known of each by its id; `traits` and `heap` say what a system is for the child
//! that measures it. What runs on which system is the registry's business.

pub(crate) mod column;
pub(crate) mod engines;
pub(crate) mod heap;
pub(crate) mod host;
pub(crate) mod limit;
pub(crate) mod linux;
pub(crate) mod ours;
pub(crate) mod peers;
pub(crate) mod start;
pub(crate) mod trace;
pub(crate) mod traits;

use crate::kit::error::LabError;
use crate::kit::machine;

/// How a system stands in comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    /// Compared with ours. `sized` peers are told the size by the caller of free, so they meet only
    /// `ashlar-sized`.
    Peer {
        sized: bool,
    },
    Limit,
    /// An allocator of the kernel, in a kernel: it is booted, not served. Never part of `all`.
    Linux,
}

/// One system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemInfo {
    pub(crate) id: &'static str,
    pub(crate) kind: Kind,
    /// The Cargo feature that compiles it in.
    feature: Option<&'static str>,
    /// Whether this build serves it: false for a peer whose feature is off, and for a kernel, which
    /// runs outside the lab.
    pub(crate) served: bool,
    /// Whether it has a column of its own in `forward`; the others say nothing new there.
    pub(crate) forwards: bool,
    /// Environment of its child.
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// The engine of ours that its child is told to use; `None`: what the environment says.
    pub(crate) engine: Option<&'static str>,
    /// Whether it may run on this machine; the error says why not.
    usable: fn() -> Result<(), String>,
}

/// A system of every build.
const fn built_in(id: &'static str, kind: Kind) -> SystemInfo {
    SystemInfo { id, kind, feature: None, served: true, forwards: false, env: &[], engine: None, usable: always }
}

/// `kmalloc` and caches of ours, with the engine that the environment says.
const fn kmalloc(id: &'static str) -> SystemInfo {
    SystemInfo { forwards: true, ..built_in(id, Kind::Ours) }
}

/// An engine of ours behind the same calls as `ashlar`.
const fn engine(id: &'static str) -> SystemInfo {
    SystemInfo { engine: Some(id), ..kmalloc(id) }
}

/// A kernel of `lab/linux`.
const fn kernel(id: &'static str, usable: fn() -> Result<(), String>) -> SystemInfo {
    SystemInfo { served: false, usable, ..built_in(id, Kind::Linux) }
}

/// A peer, which is there when its feature is on.
macro_rules! peer {
    ($id:literal, $feature:literal, sized: $sized:literal) => {
        SystemInfo {
            feature: Some($feature),
            served: cfg!(feature = $feature),
            forwards: cfg!(feature = $feature),
            ..built_in($id, Kind::Peer { sized: $sized })
        }
    };
}

fn always() -> Result<(), String> {
    Ok(())
}

/// All systems, in the order of the columns.
static SYSTEMS: [SystemInfo; 33] = [
    kmalloc("ashlar"),
    built_in("ashlar-sized", Kind::Ours),
    built_in("ashlar-cache", Kind::Ours),
    SystemInfo { forwards: true, ..built_in("ashlar-malloc", Kind::Ours) },
    engine("slub"),
    engine("slub-emu"),
    engine("slub+"),
    engine("slub-o"),
    engine("slub-2010"),
    engine("slub-2010-ll"),
    engine("slub-ll"),
    engine("slub-bulk"),
    engine("slab"),
    engine("slab24"),
    engine("slob"),
    engine("slob-seg"),
    engine("slob-cache"),
    SystemInfo { forwards: true, ..built_in("glibc", Kind::Peer { sized: false }) },
    peer!("mimalloc", "peer-mimalloc", sized: false),
    peer!("jemalloc", "peer-jemalloc", sized: false),
    peer!("snmalloc", "peer-snmalloc", sized: false),
    peer!("rpmalloc", "peer-rpmalloc", sized: false),
    peer!("tcmalloc", "peer-tcmalloc", sized: false),
    SystemInfo {
        // glibc must not register rseq for itself, or tcmalloc falls back to per-thread caches.
        env: &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")],
        usable: percpu_is_safe,
        ..peer!("tcmalloc-percpu", "peer-tcmalloc", sized: false)
    },
    peer!("jemalloc-sized", "peer-jemalloc", sized: true),
    peer!("snmalloc-sized", "peer-snmalloc", sized: true),
    peer!("tcmalloc-sized", "peer-tcmalloc", sized: true),
    peer!("mimalloc-sized", "peer-mimalloc", sized: true),
    built_in("limit", Kind::Limit),
    built_in("limit-called", Kind::Limit),
    kernel("linux-slab", || linux::built("linux-slab")),
    kernel("linux-slub", || linux::built("linux-slub")),
    kernel("linux-slob", || linux::built("linux-slob")),
];

/// tcmalloc keeps a value of its own in a field of the rseq area that Linux 6.19 no longer
/// rewrites.
fn percpu_is_safe() -> Result<(), String> {
    let release = machine::kernel();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0u32));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 19) {
        return Err(format!(
            "tcmalloc's per-CPU mode hands out memory twice on Linux 6.19 and later (google/tcmalloc #292); this is {release}"
        ));
    }
    Ok(())
}

impl SystemInfo {
    /// By id, whether compiled in or not.
    pub(crate) fn by_id(id: &str) -> Option<&'static Self> {
        SYSTEMS.iter().find(|info| info.id == id)
    }

    /// Ours, with named caches and bulk calls in `ashlar forward`.
    pub(crate) fn has_caches(&self) -> bool {
        self.kind == Kind::Ours && self.forwards && self.id != "ashlar-malloc"
    }

    /// Whether comparisons may use it against `ours`: the peers that are told as much as `ours` is.
    pub(crate) fn is_peer_of(&self, ours: &str) -> bool {
        self.kind == Kind::Peer { sized: ours == "ashlar-sized" }
    }
}

/// All systems, in this build or not, for the shells' completions.
#[cfg(test)]
pub(crate) fn all() -> impl Iterator<Item = &'static SystemInfo> {
    SYSTEMS.iter()
}

/// Those that this build serves.
pub(crate) fn served() -> impl Iterator<Item = &'static SystemInfo> {
    SYSTEMS.iter().filter(|info| info.served)
}

fn names(systems: impl Iterator<Item = &'static SystemInfo>) -> String {
    systems.map(|info| info.id).collect::<Vec<_>>().join(", ")
}

/// The systems that `--systems` names.
pub(crate) fn select(list: &str) -> Result<Vec<&'static SystemInfo>, LabError> {
    if list.trim() == "all" {
        return Ok(served().filter(|info| (info.usable)().is_ok()).collect());
    }
    let mut chosen: Vec<&'static SystemInfo> = Vec::new();
    for id in list.split(',').map(str::trim) {
        let info = lookup(id)?;
        (info.usable)().map_err(|error| LabError::option("--systems", format_args!("`{id}`: {error}")))?;
        if chosen.iter().all(|other| other.id != id) {
            chosen.push(info);
        }
    }
    Ok(chosen)
}

/// The system called `id`, if this build has it.
pub(crate) fn lookup(id: &str) -> Result<&'static SystemInfo, LabError> {
    let Some(info) = SystemInfo::by_id(id) else {
        return Err(LabError::option(
            "--systems",
            format_args!(
                "unknown system `{id}`; expected `all` or a comma-separated list of: {}",
                names(SYSTEMS.iter())
            ),
        ));
    };
    match info.feature {
        Some(feature) if !info.served => Err(LabError::option(
            "--systems",
            format_args!(
                "`{id}` is not in this build: it needs the Cargo feature `{feature}`; in this build: {}",
                names(served())
            ),
        )),
        _ => Ok(info),
    }
}

/// The systems that `--systems` names, of those that hold a whole heap: ours and the peers. `all`
/// takes each allocator once.
pub(crate) fn select_heaps(list: &str) -> Result<Vec<&'static SystemInfo>, LabError> {
    let mut chosen = select(list)?;
    if list.trim() == "all" {
        chosen.retain(|info| match info.kind {
            Kind::Ours => info.id == "ashlar" || info.engine.is_some(),
            Kind::Peer { sized } => !sized && info.env.is_empty(),
            Kind::Limit | Kind::Linux => false,
        });
    }
    match chosen.iter().find(|info| matches!(info.kind, Kind::Limit | Kind::Linux)) {
        Some(info) => {
            let known = served().filter(|info| matches!(info.kind, Kind::Ours | Kind::Peer { .. }));
            Err(LabError::option(
                "--systems",
                format_args!(
                    "`{}` runs only the tests A to F; expected `all` or a comma-separated list of: {}",
                    info.id,
                    names(known)
                ),
            ))
        }
        None => Ok(chosen),
    }
}

/// The systems that `--systems` names, of those whose single calls can be timed: the engines, and
/// each malloc whose free is not told the size. `all` takes each allocator once.
pub(crate) fn select_calls(list: &str) -> Result<Vec<&'static SystemInfo>, LabError> {
    let timed =
        |info: &SystemInfo| info.has_caches() || info.id == "ashlar-malloc" || info.kind == Kind::Peer { sized: false };
    let all = list.trim() == "all";
    let mut chosen = select(list)?;
    if all {
        chosen.retain(|info| timed(info) && info.env.is_empty());
    } else if let Some(info) = chosen.iter().find(|info| !timed(info)) {
        let known = names(served().filter(|info| timed(info)));
        let error = format_args!(
            "`{}` is neither an engine of ashlar nor a malloc with plain free; expected `all` or a comma-separated list of: {known}",
            info.id
        );
        return Err(LabError::option("--systems", error));
    }
    Ok(chosen)
}

/// The systems of `--systems` that forward.
pub(crate) fn select_forwarding(list: &str) -> Result<Vec<&'static SystemInfo>, LabError> {
    let forwards = |info: &&SystemInfo| info.forwards;
    let all = list.trim() == "all";
    let mut chosen = select(list)?;
    if all {
        chosen.retain(forwards);
    } else if let Some(info) = chosen.iter().find(|info| !forwards(info)) {
        let known = names(SYSTEMS.iter().filter(|info| info.forwards));
        let error =
            format_args!("`{}` does not forward; expected `all` or a comma-separated list of: {known}", info.id);
        return Err(LabError::option("--systems", error));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_all_is_not_one() {
        for (at, info) in SYSTEMS.iter().enumerate() {
            assert_ne!(info.id, "all");
            assert!(SYSTEMS[..at].iter().all(|other| other.id != info.id), "{}", info.id);
        }
    }

    #[test]
    fn every_engine_is_a_system() {
        // The one of debugged caches is not made to be timed.
        for engine in ashlar::Engine::ALL.iter().filter(|engine| engine.id() != "debug") {
            let info = SystemInfo::by_id(engine.id()).expect("each engine has a row");
            assert!(info.kind == Kind::Ours && (engine.id() == "ashlar" || info.engine == Some(engine.id())));
        }
    }

    #[test]
    fn sized_peers_meet_only_the_sized_system() {
        let sized = SystemInfo::by_id("snmalloc-sized").unwrap();
        assert!(sized.is_peer_of("ashlar-sized") && !sized.is_peer_of("ashlar"));
        let glibc = SystemInfo::by_id("glibc").unwrap();
        assert!(glibc.is_peer_of("ashlar") && !glibc.is_peer_of("ashlar-sized"));
        assert!(!SystemInfo::by_id("limit").unwrap().is_peer_of("ashlar"));
    }

    #[test]
    fn a_list_keeps_its_order_and_drops_repeats() {
        let ids: Vec<_> = select("limit, glibc,limit").unwrap().iter().map(|info| info.id).collect();
        assert_eq!(ids, ["limit", "glibc"]);
    }
}
