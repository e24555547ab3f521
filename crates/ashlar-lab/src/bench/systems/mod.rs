//! The systems that the lab can run: ours, the peers, the limit that none can beat, and the originals.

pub(crate) mod heap;
pub(crate) mod limit;
pub(crate) mod ours;
mod peers;

use core::marker::PhantomData;

use super::protocol::Setup;
use super::{bulk, child, linux, memory};
use crate::error::CliError;
use crate::forward::child as forward;
use crate::forward::pool::{Kernel, Malloc};
use crate::{hackbench, host};
use heap::{Heap, Malloced, Slab};

/// An allocator under test, as one process of its own sees it.
pub(crate) trait System: Sized + Send + Sync + 'static {
    /// What a timed loop holds.
    type Handle<'a>: Handle;

    /// Prepares the process for `threads` threads. The error says why the system cannot run.
    fn new(setup: &Setup, threads: usize) -> Result<Self, String>;

    /// Called on each thread before its first handle.
    fn thread_start(&self, _me: usize) {}

    /// A handle for objects of `size` bytes on thread `me`. Never inside the timed part.
    fn handle(&self, me: usize, size: usize) -> Self::Handle<'_>;

    /// What only the process can know about the system, for the host block.
    fn note(&self) -> String {
        String::new()
    }

    /// Locks taken, operations beyond the fast path and the like since the start, of systems that count them.
    fn counts(&self) -> Option<ashlar::Counts> {
        None
    }
}

/// One size of one system on one thread.
pub(crate) trait Handle {
    /// A new object, or null.
    fn alloc(&mut self) -> *mut u8;

    /// Gives an object back.
    ///
    /// # Safety
    /// `object` is live and came from `alloc` of a handle of the same system and size, on whatever thread.
    unsafe fn free(&mut self, object: *mut u8);

    /// Whether there are calls for many objects at a time.
    const BULK: bool = false;

    /// Fills `out` with new objects; false, and nothing taken, when memory ends. The system has [`Handle::BULK`].
    fn alloc_bulk(&mut self, _out: &mut [*mut u8]) -> bool {
        false
    }

    /// Gives many objects back. The system has [`Handle::BULK`].
    ///
    /// # Safety
    /// As for [`Handle::free`], of each; none occurs twice.
    unsafe fn free_bulk(&mut self, _objects: &[*mut u8]) {}
}

/// A system that is two functions, called as its users call them.
pub(crate) trait Calls: Send + Sync + 'static {
    /// Called once, before any other.
    fn process_start() -> Result<(), String> {
        Ok(())
    }

    /// Called on each thread before its first allocation.
    fn thread_start() {}

    fn alloc(size: usize) -> *mut u8;

    /// Gives an object back. `size` is what it was allocated with; an unsized free ignores it.
    ///
    /// # Safety
    /// `object` is live and came from `alloc(size)` of this system.
    unsafe fn free(object: *mut u8, size: usize);

    /// See [`System::note`].
    fn note() -> String {
        String::new()
    }

    /// See [`System::counts`].
    fn counts() -> Option<ashlar::Counts> {
        None
    }

    /// See [`Heap::slab`].
    fn slab() -> Option<Slab> {
        None
    }

    /// What [`Calls::shrink`] calls; `None` where the allocator has nothing of the kind.
    const SHRINK: Option<&'static str> = None;

    /// Asks the allocator to give free memory back to the system, by what it has for that.
    fn shrink() {}
}

/// Makes a [`System`] of two functions.
#[derive(Debug)]
pub(crate) struct Called<C>(PhantomData<C>);

/// The size is a run-time value of the loop, as in a program that allocates what a request asks for.
#[derive(Debug)]
pub(crate) struct CalledHandle<C> {
    size: usize,
    calls: PhantomData<C>,
}

impl<C: Calls> System for Called<C> {
    type Handle<'a> = CalledHandle<C>;

    fn new(_setup: &Setup, _threads: usize) -> Result<Self, String> {
        C::process_start().map(|()| Self(PhantomData))
    }

    fn thread_start(&self, _me: usize) {
        C::thread_start();
    }

    fn handle(&self, _me: usize, size: usize) -> CalledHandle<C> {
        CalledHandle { size: core::hint::black_box(size), calls: PhantomData }
    }

    fn note(&self) -> String {
        C::note()
    }

    fn counts(&self) -> Option<ashlar::Counts> {
        C::counts()
    }
}

impl<C: Calls> Handle for CalledHandle<C> {
    #[inline(always)]
    fn alloc(&mut self) -> *mut u8 {
        C::alloc(self.size)
    }

    #[inline(always)]
    unsafe fn free(&mut self, object: *mut u8) {
        // SAFETY: passed on; all handles of one pass have the same size, so it is the size of the allocation.
        unsafe { C::free(object, self.size) }
    }
}

/// How a system stands in comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    /// Compared with ours. `sized` peers are told the size by the caller of free, so they meet only `ashlar-sized`.
    Peer {
        sized: bool,
    },
    Limit,
    /// An allocator of the kernel, in a kernel: it is booted, not served. Never part of `all`.
    Linux,
}

/// The bodies of the children of one system: each is compiled once for each system, so that no call of a timed loop goes through
/// a pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bodies {
    /// Of the tests A to F: serves requests.
    pub(crate) bench: Serve,
    /// Of `bench bulk`: takes its plan, prints its answer.
    pub(crate) bulk: Planned,
    /// Of `bench memory`.
    pub(crate) memory: Planned,
    /// Of `hackbench`.
    pub(crate) hackbench: Planned,
}

/// The body of a child that serves requests.
pub(crate) type Serve = fn() -> Result<(), CliError>;

/// The body of a child that does what its argument says.
pub(crate) type Planned = fn(&str) -> Result<(), CliError>;

/// The bodies for the system `S`, which has bulk calls as `B` and is a whole heap as `H`.
const fn bodies<S: System, B: System, H: Heap>() -> Bodies {
    Bodies {
        bench: child::serve::<S>,
        bulk: bulk::child::main::<B>,
        memory: memory::child::main::<H>,
        hackbench: hackbench::child::main::<H>,
    }
}

/// The bodies of a system that is malloc and free alone.
const fn of_calls<C: Calls>() -> Bodies {
    bodies::<Called<C>, Called<C>, Malloced<C>>()
}

/// One entry of the registry.
#[derive(Debug)]
pub(crate) struct SystemInfo {
    pub(crate) id: &'static str,
    pub(crate) kind: Kind,
    /// The Cargo feature that compiles it in.
    feature: Option<&'static str>,
    /// Environment of its child.
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// The engine of ours that its child is told to use; `None`: what the environment says.
    pub(crate) engine: Option<&'static str>,
    /// Whether it may run on this machine; the error says why not.
    usable: fn() -> Result<(), String>,
    /// Absent when the feature is off, and of a kernel, which is no child of ours.
    bodies: Option<Bodies>,
    /// The body for `ashlar forward`; absent also of systems that say nothing new there.
    forward: Option<Serve>,
}

/// The body of a child when the feature is on.
macro_rules! peer_entry {
    ($feature:literal, $entry:expr) => {{
        #[cfg(feature = $feature)]
        {
            Some($entry)
        }
        #[cfg(not(feature = $feature))]
        {
            None
        }
    }};
}

macro_rules! peer {
    ($id:literal, $feature:literal, $calls:ident, sized: $sized:literal) => {
        SystemInfo {
            id: $id,
            kind: Kind::Peer { sized: $sized },
            feature: Some($feature),
            env: &[],
            engine: None,
            usable: always,
            bodies: peer_entry!($feature, of_calls::<peers::$calls>()),
            forward: peer_entry!($feature, forward::entry::<Malloc<peers::$calls>>()),
        }
    };
}

const fn built_in(id: &'static str, kind: Kind, bodies: Bodies) -> SystemInfo {
    SystemInfo { id, kind, feature: None, env: &[], engine: None, usable: always, bodies: Some(bodies), forward: None }
}

/// `kmalloc` and `kfree`, in bulk and as a heap with the caches beside them.
const KMALLOC: Bodies = bodies::<Called<ours::Kmalloc>, ours::Caches, ours::CachesAndKmalloc>();

/// An engine of ours behind the same calls as `ashlar`.
const fn engine(id: &'static str) -> SystemInfo {
    SystemInfo { engine: Some(id), ..kmalloc(id) }
}

/// `kmalloc` and caches of ours, with the engine that the environment says.
const fn kmalloc(id: &'static str) -> SystemInfo {
    let forward = Some(forward::entry::<Kernel>());
    SystemInfo { forward, ..built_in(id, Kind::Ours, KMALLOC) }
}

/// A kernel of `lab/linux`.
const fn kernel(id: &'static str, usable: fn() -> Result<(), String>) -> SystemInfo {
    SystemInfo { id, kind: Kind::Linux, feature: None, env: &[], engine: None, usable, bodies: None, forward: None }
}

/// A limit has no heap; [`select_heaps`] refuses it before any of these is asked for one.
const fn limit_alone<S: System>() -> Bodies {
    fn none(_plan: &str) -> Result<(), CliError> {
        Err(CliError::Usage("a limit runs only the tests A to F".to_owned()))
    }
    Bodies { bench: child::serve::<S>, bulk: none, memory: none, hackbench: none }
}

fn always() -> Result<(), String> {
    Ok(())
}

/// All systems, in the order of the columns.
static SYSTEMS: [SystemInfo; 30] = [
    kmalloc("ashlar"),
    built_in("ashlar-sized", Kind::Ours, of_calls::<ours::KmallocSized>()),
    built_in("ashlar-cache", Kind::Ours, bodies::<ours::Caches, ours::Caches, ours::CachesAndKmalloc>()),
    SystemInfo {
        forward: Some(forward::entry::<Malloc<ours::Malloc>>()),
        ..built_in("ashlar-malloc", Kind::Ours, of_calls::<ours::Malloc>())
    },
    engine("slub"),
    engine("slub-emu"),
    engine("slub+"),
    engine("slub-o"),
    engine("slub-ll"),
    engine("slub-bulk"),
    engine("slab"),
    engine("slob"),
    engine("slob-seg"),
    engine("slob-cache"),
    SystemInfo {
        forward: Some(forward::entry::<Malloc<peers::Glibc>>()),
        ..built_in("glibc", Kind::Peer { sized: false }, of_calls::<peers::Glibc>())
    },
    peer!("mimalloc", "peer-mimalloc", Mimalloc, sized: false),
    peer!("jemalloc", "peer-jemalloc", Jemalloc, sized: false),
    peer!("snmalloc", "peer-snmalloc", Snmalloc, sized: false),
    peer!("rpmalloc", "peer-rpmalloc", Rpmalloc, sized: false),
    peer!("tcmalloc", "peer-tcmalloc", Tcmalloc, sized: false),
    SystemInfo {
        id: "tcmalloc-percpu",
        kind: Kind::Peer { sized: false },
        feature: Some("peer-tcmalloc"),
        // glibc must not register rseq for itself, or tcmalloc falls back to per-thread caches.
        env: &[("GLIBC_TUNABLES", "glibc.pthread.rseq=0")],
        engine: None,
        usable: percpu_is_safe,
        bodies: peer_entry!("peer-tcmalloc", of_calls::<peers::Tcmalloc>()),
        forward: peer_entry!("peer-tcmalloc", forward::entry::<Malloc<peers::Tcmalloc>>()),
    },
    peer!("jemalloc-sized", "peer-jemalloc", JemallocSized, sized: true),
    peer!("snmalloc-sized", "peer-snmalloc", SnmallocSized, sized: true),
    peer!("tcmalloc-sized", "peer-tcmalloc", TcmallocSized, sized: true),
    peer!("mimalloc-sized", "peer-mimalloc", MimallocSized, sized: true),
    built_in("limit", Kind::Limit, limit_alone::<limit::Limit>()),
    built_in("limit-called", Kind::Limit, limit_alone::<limit::LimitCalled>()),
    kernel("linux-slab", || linux::built("linux-slab")),
    kernel("linux-slub", || linux::built("linux-slub")),
    kernel("linux-slob", || linux::built("linux-slob")),
];

/// tcmalloc keeps a value of its own in a field of the rseq area that Linux 6.19 no longer rewrites.
fn percpu_is_safe() -> Result<(), String> {
    let release = host::kernel();
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
        self.kind == Kind::Ours && self.forward.is_some() && self.id != "ashlar-malloc"
    }

    /// Whether comparisons may use it against `ours`: the peers that are told as much as `ours` is.
    pub(crate) fn is_peer_of(&self, ours: &str) -> bool {
        self.kind == Kind::Peer { sized: ours == "ashlar-sized" }
    }
}

fn compiled() -> impl Iterator<Item = &'static SystemInfo> {
    SYSTEMS.iter().filter(|info| info.bodies.is_some())
}

fn names(systems: impl Iterator<Item = &'static SystemInfo>) -> String {
    systems.map(|info| info.id).collect::<Vec<_>>().join(", ")
}

/// The systems that `--systems` names.
pub(crate) fn select(list: &str) -> Result<Vec<&'static SystemInfo>, CliError> {
    if list.trim() == "all" {
        return Ok(compiled().filter(|info| (info.usable)().is_ok()).collect());
    }
    let mut chosen: Vec<&'static SystemInfo> = Vec::new();
    for id in list.split(',').map(str::trim) {
        let info = lookup(id)?;
        (info.usable)().map_err(|error| CliError::option("--systems", format_args!("`{id}`: {error}")))?;
        if chosen.iter().all(|other| other.id != id) {
            chosen.push(info);
        }
    }
    Ok(chosen)
}

fn lookup(id: &str) -> Result<&'static SystemInfo, CliError> {
    let Some(info) = SystemInfo::by_id(id) else {
        return Err(CliError::option(
            "--systems",
            format_args!(
                "unknown system `{id}`; expected `all` or a comma-separated list of: {}",
                names(SYSTEMS.iter())
            ),
        ));
    };
    match (&info.bodies, info.feature) {
        (None, Some(feature)) => Err(CliError::option(
            "--systems",
            format_args!(
                "`{id}` is not in this build: it needs the Cargo feature `{feature}`; in this build: {}",
                names(compiled())
            ),
        )),
        _ => Ok(info),
    }
}

/// The systems that `--systems` names, of those that hold a whole heap: ours and the peers. `all` takes each allocator once.
pub(crate) fn select_heaps(list: &str) -> Result<Vec<&'static SystemInfo>, CliError> {
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
            let known = compiled().filter(|info| matches!(info.kind, Kind::Ours | Kind::Peer { .. }));
            Err(CliError::option(
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

/// Finds the bodies of the children for `id`.
pub(crate) fn bodies_of(id: &str) -> Result<Bodies, CliError> {
    lookup(id)?.bodies.ok_or_else(|| CliError::option("--systems", format_args!("`{id}` is not in this build")))
}

/// The systems of `--systems` that forward.
pub(crate) fn select_forwarding(list: &str) -> Result<Vec<&'static SystemInfo>, CliError> {
    let forwards = |info: &&SystemInfo| info.forward.is_some();
    let all = list.trim() == "all";
    let mut chosen = select(list)?;
    if all {
        chosen.retain(forwards);
    } else if let Some(info) = chosen.iter().find(|info| !forwards(info)) {
        let known = names(SYSTEMS.iter().filter(|info| info.forward.is_some()));
        let error =
            format_args!("`{}` does not forward; expected `all` or a comma-separated list of: {known}", info.id);
        return Err(CliError::option("--systems", error));
    }
    Ok(chosen)
}

/// Finds the body of the child of `ashlar forward` for `id`.
pub(crate) fn serve_forwarding(id: &str) -> Result<Serve, CliError> {
    lookup(id)?.forward.ok_or_else(|| CliError::option("--systems", format_args!("`{id}` does not forward")))
}

/// Version of a peer as its library tells it, or as the lock file had it at build time.
pub(crate) fn version(id: &str) -> String {
    peers::version(id)
}

/// Whether a peer's library was built with its assertions, where the library itself can be asked.
pub(crate) fn told_debug(id: &str) -> Option<bool> {
    peers::told_debug(id)
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
        for engine in ashlar::Engine::ALL {
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
