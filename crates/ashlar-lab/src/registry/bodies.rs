//! The bodies of the measured processes, one set for each system.

use crate::experiments::forward::child::pool::{Kernel, Malloc};
use crate::experiments::{bulk, forward, hackbench, kernel_tests, memory, worst};
use crate::kit::error::LabError;
use crate::systems::heap::{Heap, Malloced};
use crate::systems::traits::{Called, Calls, System};
use crate::systems::{self, limit, ours, peers};

/// The bodies of one system.
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
    /// Of `bench worst`.
    pub(crate) worst: Planned,
}

/// The body of a process that serves requests.
pub(crate) type Serve = fn() -> Result<(), LabError>;

/// The body of a process that does what its argument says.
pub(crate) type Planned = fn(&str) -> Result<(), LabError>;

/// The bodies for the system `S`, which has bulk calls as `B`, is a whole heap as `H`, and has its
/// single calls timed by `worst`.
const fn bodies<S: System, B: System, H: Heap>(worst: Planned) -> Bodies {
    Bodies {
        bench: kernel_tests::child::serve::<S>,
        bulk: bulk::child::main::<B>,
        memory: memory::child::main::<H>,
        hackbench: hackbench::child::main::<H>,
        worst,
    }
}

/// The bodies of a system that is malloc and free alone.
const fn of_calls<C: Calls>() -> Bodies {
    bodies::<Called<C>, Called<C>, Malloced<C>>(worst::child::malloc::<C>)
}

/// `kmalloc` and `kfree`, in bulk and as a heap with the caches beside them.
const KMALLOC: Bodies = bodies::<Called<ours::Kmalloc>, ours::Caches, ours::CachesAndKmalloc>(worst::child::engine);

/// A limit has no heap; [`systems::select_heaps`] refuses it before any of these is asked for one.
const fn limit_alone<S: System>() -> Bodies {
    fn none(_plan: &str) -> Result<(), LabError> {
        Err(LabError::Usage("a limit runs only the tests A to F".to_owned()))
    }
    Bodies { bench: kernel_tests::child::serve::<S>, bulk: none, memory: none, hackbench: none, worst: none }
}

/// The bodies of the system called `id`.
pub(crate) fn of(id: &str) -> Result<Bodies, LabError> {
    let info = systems::lookup(id)?;
    let found = match id {
        "ashlar" => KMALLOC,
        _ if info.engine.is_some() => KMALLOC,
        "ashlar-sized" => of_calls::<ours::KmallocSized>(),
        "ashlar-cache" => bodies::<ours::Caches, ours::Caches, ours::CachesAndKmalloc>(worst::child::engine),
        "ashlar-malloc" => of_calls::<ours::Malloc>(),
        "glibc" => of_calls::<peers::Glibc>(),
        #[cfg(feature = "peer-mimalloc")]
        "mimalloc" => of_calls::<peers::Mimalloc>(),
        #[cfg(feature = "peer-mimalloc")]
        "mimalloc-sized" => of_calls::<peers::MimallocSized>(),
        #[cfg(feature = "peer-jemalloc")]
        "jemalloc" => of_calls::<peers::Jemalloc>(),
        #[cfg(feature = "peer-jemalloc")]
        "jemalloc-sized" => of_calls::<peers::JemallocSized>(),
        #[cfg(feature = "peer-snmalloc")]
        "snmalloc" => of_calls::<peers::Snmalloc>(),
        #[cfg(feature = "peer-snmalloc")]
        "snmalloc-sized" => of_calls::<peers::SnmallocSized>(),
        #[cfg(feature = "peer-rpmalloc")]
        "rpmalloc" => of_calls::<peers::Rpmalloc>(),
        #[cfg(feature = "peer-tcmalloc")]
        "tcmalloc" | "tcmalloc-percpu" => of_calls::<peers::Tcmalloc>(),
        #[cfg(feature = "peer-tcmalloc")]
        "tcmalloc-sized" => of_calls::<peers::TcmallocSized>(),
        "limit" => limit_alone::<limit::Limit>(),
        "limit-called" => limit_alone::<limit::LimitCalled>(),
        _ => return Err(LabError::option("--systems", format_args!("`{id}` is not in this build"))),
    };
    Ok(found)
}

/// The body of `forward` for the system called `id`.
pub(crate) fn forwarding(id: &str) -> Result<Serve, LabError> {
    let info = systems::lookup(id)?;
    let found: Serve = match id {
        _ if info.has_caches() => forward::child::serve::<Kernel>,
        "ashlar-malloc" => forward::child::serve::<Malloc<ours::Malloc>>,
        "glibc" => forward::child::serve::<Malloc<peers::Glibc>>,
        #[cfg(feature = "peer-mimalloc")]
        "mimalloc" => forward::child::serve::<Malloc<peers::Mimalloc>>,
        #[cfg(feature = "peer-mimalloc")]
        "mimalloc-sized" => forward::child::serve::<Malloc<peers::MimallocSized>>,
        #[cfg(feature = "peer-jemalloc")]
        "jemalloc" => forward::child::serve::<Malloc<peers::Jemalloc>>,
        #[cfg(feature = "peer-jemalloc")]
        "jemalloc-sized" => forward::child::serve::<Malloc<peers::JemallocSized>>,
        #[cfg(feature = "peer-snmalloc")]
        "snmalloc" => forward::child::serve::<Malloc<peers::Snmalloc>>,
        #[cfg(feature = "peer-snmalloc")]
        "snmalloc-sized" => forward::child::serve::<Malloc<peers::SnmallocSized>>,
        #[cfg(feature = "peer-rpmalloc")]
        "rpmalloc" => forward::child::serve::<Malloc<peers::Rpmalloc>>,
        #[cfg(feature = "peer-tcmalloc")]
        "tcmalloc" | "tcmalloc-percpu" => forward::child::serve::<Malloc<peers::Tcmalloc>>,
        #[cfg(feature = "peer-tcmalloc")]
        "tcmalloc-sized" => forward::child::serve::<Malloc<peers::TcmallocSized>>,
        _ => return Err(LabError::option("--systems", format_args!("`{id}` does not forward"))),
    };
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_that_is_served_has_its_bodies() {
        let mut seen = 0;
        for info in systems::served() {
            assert!(of(info.id).is_ok(), "{} has no bodies", info.id);
            assert_eq!(forwarding(info.id).is_ok(), info.forwards, "{}", info.id);
            seen += 1;
        }
        assert!(seen > 15, "only {seen} systems");
        assert!(of("linux-slub").is_err() && forwarding("limit").is_err());
    }
}
