//! Start-up: starts the layers at the first slow path that needs them. Only the faces call it.
//!
//! | step | what it makes | what needs it |
//! |---|---|---|
//! | *base* | zone, per-CPU areas, metadata memory, critical sections | everything |
//! | *kmalloc* | the caches of kmalloc's size classes | kmalloc, and what is built on it |
//! | *malloc* | the object map; caches come with their first object | malloc |
//!
//! Each step is a [`Once`]. Until it is done, the fast paths fall through to a slow path, which
//! calls [`ensure`], [`ensure_base`] or [`ensure_malloc`]. Start-up code must not allocate. If
//! memory for the base is refused, every later request fails, too. The next request that needs one
//! of the other steps tries that step again.
#![allow(unsafe_code, reason = "calls back by a stored address")]

#[cfg(feature = "os")]
mod window;

#[cfg(not(feature = "os"))]
use crate::base::platform::Platform;
use crate::base::source::PageSource;
use crate::base::sync::{AtomicUsize, Once, Ordering};
use crate::base::units::MAX_NODES;
use crate::cache::reaper;
use crate::cache::settings::{self, OptionError};
use crate::engine::route::harden;
use crate::pages::layout::Layout;
use crate::pages::memmap::{FastFrees, MEMMAP};
use crate::pages::meta::META;
use crate::pages::zone::ZONE;
use crate::percpu::{
    self,
    area::{PERCPU, PerCpu},
};
use crate::sizes;

static BASE: Once = Once::new();
static KMALLOC: Once = Once::new();
static MALLOC: Once = Once::new();
/// The function to call after the start of malloc; 0 for none.
static WHEN_UP: AtomicUsize = AtomicUsize::new(0);

/// The allocator has started already, so its options and its page source are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyStarted;

impl core::fmt::Display for AlreadyStarted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the allocator has started already")
    }
}

impl core::error::Error for AlreadyStarted {}

/// Starts kmalloc if needed. Returns false if memory for it is refused.
#[inline]
pub(crate) fn ensure() -> bool {
    KMALLOC.is_up() || ensure_slow()
}

#[cold]
fn ensure_slow() -> bool {
    ensure_base() && KMALLOC.ensure_or_again(|| catching_up(sizes::kmalloc::create_caches()))
}

/// Has guard sampling, and a profile that runs already, count the calls of what has started.
#[inline]
fn catching_up(started: bool) -> bool {
    #[cfg(feature = "os")]
    {
        if crate::engine::guard::is_on() {
            sizes::guarded::include();
        }
        if sizes::profile::ever_on() {
            sizes::profile::catch_up();
        }
    }
    started
}

/// Starts the base if needed, so that caches can be created. Returns false if memory for it is
/// refused.
#[inline]
pub(crate) fn ensure_base() -> bool {
    BASE.is_up() || ensure_base_slow()
}

/// Starts malloc if needed. Returns false if memory for it is refused.
#[inline]
pub(crate) fn ensure_malloc() -> bool {
    MALLOC.is_up() || ensure_malloc_slow()
}

#[cold]
#[inline(never)]
fn ensure_malloc_slow() -> bool {
    let up = start_malloc();
    let then = WHEN_UP.load(Ordering::Acquire);
    if up && then != 0 {
        // SAFETY: only `when_up` stores here, and only values of this function type.
        let then = unsafe { core::mem::transmute::<*const (), fn()>(core::ptr::with_exposed_provenance(then)) };
        then();
    }
    up
}

#[inline(never)]
#[place(cold)]
fn start_malloc() -> bool {
    ensure_base() && MALLOC.ensure(|| catching_up(sizes::malloc::start()))
}

/// Runs `then` after the start of malloc: now, or in the first call that needs memory, before that
/// call returns. `then` may run twice, or never if another thread is mid-start. It may release what
/// only start-up used.
pub fn when_up(then: fn()) {
    WHEN_UP.store(then as usize, Ordering::Release);
    if MALLOC.is_up() {
        then();
    }
}

#[cold]
#[place(cold)]
fn ensure_base_slow() -> bool {
    #[cfg(feature = "os")]
    return BASE.ensure(|| lay_out_for_linux() && connect() && window::open());
    #[cfg(not(feature = "os"))]
    BASE.is_up()
}

/// Returns whether the base has started.
#[cfg(feature = "os")]
pub(crate) fn is_up() -> bool {
    BASE.is_up()
}

/// See [`Once::after_fork_in_child`]. The base has started, because `fork::prepare` starts it.
pub(crate) fn after_fork_in_child() {
    KMALLOC.after_fork_in_child();
    MALLOC.after_fork_in_child();
}

/// Reads options and topology, and lays out memory and CPUs. A separate function, so that its table
/// is not on the stack while caches are created; the first call of malloc may run on a small stack.
#[cfg(feature = "os")]
#[inline(never)]
#[place(cold)]
fn lay_out_for_linux() -> bool {
    use crate::base::os::LinuxSource;
    static SOURCE: LinuxSource = LinuxSource::new();
    settings::read_environment();
    let options = settings::options();
    let mut cpu_to_node = [0u8; 1024];
    let system = *crate::base::os::SYSTEM.lock();
    let topology = crate::base::os::read_topology(system, &mut cpu_to_node);
    let fake = options.nodes != 0;
    let real_nodes = if fake || topology.nodes == 1 { &[] } else { &topology.node_ids[..topology.nodes as usize] };
    SOURCE.configure(options.hugepages, options.prefault, real_nodes);
    let nodes = if fake { options.nodes } else { topology.nodes.min(MAX_NODES as u32) };
    let node_of = |cpu: usize| {
        if fake { (cpu as u32 % nodes) as u8 } else { cpu_to_node.get(cpu).copied().unwrap_or(0) }
    };
    lay_out(&SOURCE, topology.possible_cpus, topology.present_cpus, nodes, node_of)
}

/// Starts the base of caches: zone, per-CPU areas, metadata memory, critical sections.
fn lay_out(
    source: &'static dyn PageSource,
    cpus: u32,
    present: u32,
    nodes: u32,
    node_of: impl Fn(usize) -> u8,
) -> bool {
    settings::settle();
    let options = settings::options();
    crate::base::report::set_on_error(options.on_error);
    settings::set_cpus(present);
    harden(options.hardening);
    let Some(layout) = Layout::new(source, PerCpu::bytes(cpus), options.zone) else { return false };
    PERCPU.init(layout.percpu, cpus, node_of);
    META.init(layout.supply, layout.meta.clone(), |bytes| ZONE.lend(bytes));
    ZONE.init(&layout, nodes as usize);
    if !percpu::start(options.percpu, options.irq) {
        return false;
    }
    #[cfg(feature = "os")]
    crate::engine::guard::start(options.guard);
    if options.engine.has_sheaves() {
        MEMMAP.open_fast_frees(match (nodes, PERCPU.nodes()) {
            (1, _) => FastFrees::All,
            (_, 1) => FastFrees::ByAddress,
            _ => FastFrees::OfThisNode,
        });
    }
    true
}

/// Registers the functions of higher layers with lower ones.
fn connect() -> bool {
    ZONE.set_before_growth(reaper::before_growth);
    crate::engine::history::slab_queues::set_walk(reaper::visit);
    #[cfg(not(feature = "os"))]
    percpu::remote::set_serve(reaper::serve);
    #[cfg(feature = "os")]
    if settings::options().reaper != settings::Reaper::Nothing && percpu::mode() != percpu::Mode::Emulate {
        crate::base::background::enable(&JOB);
    }
    #[cfg(feature = "os")]
    crate::base::background::enable_without_job(take_up);
    true
}

/// The work that [`crate::base::background`] runs.
#[cfg(feature = "os")]
static JOB: crate::base::background::Job = crate::base::background::Job { tick, trim: reaper::trim };

/// Does the work of one tick: first what a tool asked for. Returns true if more is left.
#[cfg(feature = "os")]
#[place(background)]
fn tick() -> bool {
    take_up();
    let more = reaper::tick();
    sizes::guarded::tick() || more
}

/// Does what a tool asked for.
#[cfg(feature = "os")]
#[place(background)]
fn take_up() {
    crate::cache::hands::take_up(sizes::profile::asked);
}

/// Starts the allocator on the caller's page source, for one CPU, in programs without an operating
/// system and in tests. Must be called before the first allocation.
///
/// # Errors
/// [`AlreadyStarted`] if the allocator runs already. If the source has too little memory, every
/// later request fails.
pub fn start_on(source: &'static dyn PageSource) -> Result<bool, AlreadyStarted> {
    if !BASE.is_down() {
        return Err(AlreadyStarted);
    }
    Ok(BASE.ensure(|| lay_out(source, 1, 1, 1, |_| 0) && connect()) && ensure())
}

/// Starts the allocator in a kernel with several CPUs, on the caller's page source. Must be called
/// before the first allocation, by the CPU that boots.
///
/// # Errors
/// [`AlreadyStarted`] if the allocator runs already. If the source has too little memory, `Ok` has
/// false, and every later request fails.
#[cfg(not(feature = "os"))]
pub fn start_on_cpus(source: &'static dyn PageSource, platform: &'static dyn Platform) -> Result<bool, AlreadyStarted> {
    if !BASE.is_down() {
        return Err(AlreadyStarted);
    }
    let cpus = platform.cpus().max(1);
    let nodes = platform.nodes().clamp(1, MAX_NODES as u32);
    let node_of = |cpu: usize| if cpu < cpus as usize { platform.node_of_cpu(cpu as u32) } else { 0 };
    let node_of = |cpu: usize| Some(node_of(cpu)).filter(|&node| node < nodes).map_or(0, |node| node as u8);
    let begin = || {
        // SAFETY: the base is down, so no lock of this crate is held and nothing has run. `Once`
        // lets one thread in, and others wait for it.
        unsafe { crate::base::sync::section::set(platform) };
        lay_out(source, cpus, cpus, nodes, node_of) && connect()
    };
    Ok(BASE.ensure(begin) && ensure())
}

/// Sets options before the allocator starts, in the grammar of `ASHLAR_OPTIONS`. The environment is
/// read later and takes precedence. `percpu=emulate` is accepted only from the environment, because
/// it gives no protection against other threads, which safe code may start.
///
/// # Errors
/// The first part that is not an option. The others are applied.
pub fn configure(text: &str) -> Result<(), OptionError<'_>> {
    settings::configure_if(|| BASE.is_down(), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizes::kmalloc::class_cache;
    use crate::sizes::object_map::OBJECTS;

    #[test]
    fn a_child_of_a_fork_amid_the_second_step_finds_the_same_caches() {
        assert!(ensure());
        let caches = || [8, 100, 8192].map(|size| class_cache(size).map(core::ptr::from_ref));
        let before = caches();
        // Other threads of this test wait meanwhile, as they would.
        KMALLOC.leave_half_made();
        after_fork_in_child();
        assert!(ensure());
        assert_eq!(caches(), before);
        assert!(before.iter().all(Option::is_some));
    }

    #[test]
    fn a_child_of_a_fork_amid_the_start_of_malloc_finds_the_same_map() {
        assert!(ensure_malloc());
        let object = sizes::malloc::alloc(7, 64).expect("memory").addr().get();
        let map = || (OBJECTS.first.load(Ordering::Relaxed), OBJECTS.code_at(object), OBJECTS.is_in_place());
        let before = map();
        assert_ne!(before.1, 0);
        // Other threads of this test wait meanwhile, as they would.
        MALLOC.leave_half_made();
        after_fork_in_child();
        assert!(ensure_malloc());
        assert_eq!(map(), before);
    }
}
