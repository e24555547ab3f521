//! Boot: brings the layers up, once, at the first slow path.
//!
//! In two steps, each a [`Once`]: the *base* (zone, per-CPU areas, metadata memory, sections) is all that malloc needs, which makes its caches
//! when they are used; kmalloc's caches, by which a program's own may be served, are the second. Until then each fast path falls through to a
//! slow path, which calls [`ensure`] or [`ensure_base`]. Who builds never allocates. Where memory for the base is refused, every request is out of
//! memory for ever; the second step is tried again by the next request that needs it.

use crate::base::source::PageSource;
use crate::base::sync::Once;
#[cfg(feature = "os")]
use crate::base::units::MAX_NODES;
use crate::cache::settings::{self, OptionError};
use crate::pages::layout::Layout;
use crate::pages::meta::META;
use crate::pages::zone::ZONE;
use crate::percpu::{
    self,
    area::{PERCPU, PerCpu},
};

static BASE: Once = Once::new();
static KMALLOC: Once = Once::new();
/// The allocator has started already: options and page source are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyStarted;

impl core::fmt::Display for AlreadyStarted {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the allocator has started already")
    }
}

impl core::error::Error for AlreadyStarted {}

/// Makes sure that the allocator is up; false when it cannot be had.
#[inline]
pub(crate) fn ensure() -> bool {
    KMALLOC.is_up() || ensure_slow()
}

#[cold]
fn ensure_slow() -> bool {
    ensure_base() && KMALLOC.ensure_or_again(crate::kmalloc::create_caches)
}

/// As [`ensure`], without kmalloc's caches.
#[inline]
pub(crate) fn ensure_base() -> bool {
    BASE.is_up() || ensure_base_slow()
}

#[cold]
#[place(cold)]
fn ensure_base_slow() -> bool {
    #[cfg(feature = "os")]
    return BASE.ensure(|| lay_out_for_linux() && connect());
    #[cfg(not(feature = "os"))]
    BASE.is_up()
}

/// See [`Once::after_fork_in_child`]. Who forks has the base: see `fork`.
pub(crate) fn after_fork_in_child() {
    KMALLOC.after_fork_in_child();
}

/// Reads options and topology, and lays out memory and CPUs. A function of its own, so that its table is not on the stack when caches
/// are made: the first call of malloc may come on a small one.
#[cfg(feature = "os")]
#[inline(never)]
#[place(cold)]
fn lay_out_for_linux() -> bool {
    use crate::base::os::LinuxSource;
    static SOURCE: LinuxSource = LinuxSource::new();
    settings::read_environment();
    let options = settings::options();
    let mut cpu_to_node = [0u8; 1024];
    let topology = crate::base::os::read_topology(crate::base::os::SYSTEM, &mut cpu_to_node);
    let fake = options.nodes != 0;
    let real_nodes = if fake || topology.nodes == 1 { &[] } else { &topology.node_ids[..topology.nodes as usize] };
    SOURCE.configure(options.hugepages, options.prefault, real_nodes);
    let nodes = if fake { options.nodes } else { topology.nodes.min(MAX_NODES as u32) };
    let node_of = |cpu: usize| {
        if fake { (cpu as u32 % nodes) as u8 } else { cpu_to_node.get(cpu).copied().unwrap_or(0) }
    };
    lay_out(&SOURCE, topology.possible_cpus, topology.present_cpus, nodes, node_of)
}

/// Brings up what caches stand on: zone, per-CPU areas, metadata memory, sections.
fn lay_out(
    source: &'static dyn PageSource,
    cpus: u32,
    present: u32,
    nodes: u32,
    node_of: impl Fn(usize) -> u8,
) -> bool {
    let options = settings::options();
    crate::base::report::set_on_error(options.on_error);
    settings::set_cpus(present);
    let Some(layout) = Layout::new(source, PerCpu::bytes(cpus), options.zone) else { return false };
    PERCPU.init(layout.percpu, cpus, nodes, node_of);
    META.init(layout.supply, layout.meta.clone());
    ZONE.init(&layout, nodes as usize);
    percpu::start(options.percpu);
    true
}

/// Tells the layers whom to call.
fn connect() -> bool {
    ZONE.set_before_growth(crate::cache::reaper::before_growth);
    crate::engine::history::slab_queues::set_walk(crate::cache::reaper::visit);
    #[cfg(feature = "os")]
    if settings::options().reaper != settings::Reaper::Nothing && percpu::mode() != percpu::Mode::Emulate {
        crate::base::background::enable(&crate::cache::reaper::JOB);
    }
    true
}

/// Starts the allocator on a page source of the caller's, for one CPU: the way for programs without an
/// operating system, and for tests. Must come before the first allocation.
///
/// # Errors
/// [`AlreadyStarted`] when the allocator runs already. A source without enough memory leaves the allocator in a
/// state where every request is out of memory.
pub fn start_on(source: &'static dyn PageSource) -> Result<bool, AlreadyStarted> {
    if !BASE.is_down() {
        return Err(AlreadyStarted);
    }
    Ok(BASE.ensure(|| lay_out(source, 1, 1, 1, |_| 0) && connect()) && ensure())
}

/// Sets options before the allocator starts, in the grammar of `ASHLAR_OPTIONS`; the environment is
/// read after and wins. `percpu=emulate` is for the environment alone: it protects nothing against
/// other threads, and safe code may start some.
///
/// # Errors
/// The first part that is no option; the others are applied.
pub fn configure(text: &str) -> Result<(), OptionError<'_>> {
    settings::configure_if(|| BASE.is_down(), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kmalloc::class_cache;

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
}
