//! The Linux slab allocators as a library: named object caches, `kmalloc`, and the layers under
//! them.
//!
//! ```
//! let cache = ashlar::KmemCache::create("packet", 256, &ashlar::CacheArgs::default())?;
//! let packet = cache.alloc().expect("memory");
//! // SAFETY: allocated just above, and not used again.
//! unsafe { cache.free(packet) };
//! let buffer = ashlar::kmalloc(100);
//! // SAFETY: as above.
//! unsafe { ashlar::kfree(buffer) };
//! # Ok::<(), ashlar::CreateError>(())
//! ```
//!
//! ## Layers, lowest first; an import only ever points down
//!
//! | layer | module | what it owns |
//! |---|---|---|
//! | 0 | `base` | numbers, atomics and locks, errors, reports, the system; options |
//! | 1 | `pages` | where memory comes from: the zone, its blocks, memmap |
//! | 2 | `percpu` | CPU-local sections, sheaves |
//! | 3 | `slab` | slabs of one cache: geometry, state word, freelist, partial lists |
//! | 4 | `engine` | the strategies: `sheaves`, the default, and those of history |
//! | 5 | `cache` | kmem_cache: creation, registry, typed caches, the reaper |
//! | 6 | `sizes` | from a size or an address to a cache: size classes, large objects, the object map |
//! | 7 | `boot` | brings the layers up |
//! | 8 | `faces` | what programs call: kmem_cache, typed caches, kmalloc, malloc, the fork handlers |
//!
//! ## Lock order
//! registry lock, drain lock, CPU locks (mode `lock` only), list_lock or barn lock (never both, but
//! for fork, which takes a node's list_lock first), sheaf pool lock, growth lock, zone lock, direct
//! lock, meta lock, options lock, lock of the table of samples, guard lock. The lock of free slots
//! is only taken under the registry lock. Allocation paths only ever try the registry lock. A
//! paragraph for each lock stands at the head of the module that owns it; [`fork`] takes them in
//! this order.
//!
//! The fast paths (`kmalloc`, `kfree`, [`KmemCache::alloc`], [`KmemCache::free`]) take no lock and
//! execute no atomic read-modify-write instruction.
#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(ashlar_loom, allow(dead_code, unused_imports, unreachable_pub, reason = "models use a part of the crate"))]

#[cfg(any(test, ashlar_loom))]
#[macro_use] // Compilers before 1.91 do not find `vec!` in unit tests otherwise.
extern crate std;

// `#[place(…)]`, by which functions and tables say in which part of the library they lie.
#[macro_use]
extern crate ashlar_macros;

mod base;
#[cfg(not(ashlar_loom))]
mod boot;
#[cfg(not(ashlar_loom))]
mod cache;
#[cfg(not(ashlar_loom))]
mod engine;
/// The part of the engine that models drive; the files are those of the real module.
#[cfg(ashlar_loom)]
mod engine {
    pub(crate) mod history {
        pub(crate) mod slab_queues {
            pub(crate) mod alien;
            pub(crate) mod array;
            mod chain;
            mod index_array;
            pub(crate) mod lists;
            mod record;
            pub(crate) mod slabs;
        }
        pub(crate) mod slub {
            pub(crate) mod partly;
            pub(crate) mod slabs;
            pub(crate) mod words;
        }
    }
    pub(crate) mod sheaves {
        pub(crate) mod barn;
    }
}
#[cfg(not(ashlar_loom))]
mod faces;
#[cfg(all(ashlar_loom, test))]
mod models;
mod pages;
#[cfg(not(ashlar_loom))]
mod percpu;
/// Sheaves, which barns hold, and the words that keep sections away.
#[cfg(ashlar_loom)]
mod percpu {
    pub(crate) mod cpu_word;
    pub(crate) mod sheaf;
}
#[cfg(not(ashlar_loom))]
mod sizes;
mod slab;
// Public for the tests of this crate, which are crates of their own.
#[cfg(not(ashlar_loom))]
#[doc(hidden)]
pub mod testing;

#[cfg(not(ashlar_loom))]
pub use api::*;

/// The example of the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(not(ashlar_loom))]
mod api {
    #[cfg(feature = "os")]
    pub use crate::base::error::ReaperError;
    pub use crate::base::error::{AllocError, CreateError, DestroyError, TuneError};
    // For the `pthread_create` of ashlar-malloc.
    #[cfg(feature = "os")]
    #[doc(hidden)]
    pub use crate::base::os::thread::{Create as CreateThread, Entry as ThreadEntry};
    // For the macro `panic_handler`.
    #[cfg(feature = "os")]
    #[doc(hidden)]
    pub use crate::base::report::panicked;
    pub use crate::base::source::{PageSource, Refusal};
    pub use crate::base::units::{NodeId, PAGE_SIZE};
    // For the tool, which reads the window of other processes, and writes to their mailbox.
    #[cfg(not(feature = "os"))]
    pub use crate::base::platform::Platform;
    #[cfg(feature = "os")]
    #[doc(hidden)]
    pub use crate::base::{mailbox, window};
    #[cfg(not(feature = "os"))]
    pub use crate::boot::start_on_cpus;
    pub use crate::boot::{AlreadyStarted, configure, start_on};
    pub use crate::cache::settings::{DebugError, OptionError, check_debug, check_failslab, check_options};
    pub use crate::cache::{
        AliasInfo, CacheArgs, CacheInfo, Constructor, for_each_alias, for_each_cache, total_counts, validate,
    };
    pub use crate::engine::history::slab_queues::{QueueInfo, QueueTunables};
    pub use crate::engine::sheaves::barn::BarnStats;
    // Columns of the lab's comparison of engines.
    #[doc(hidden)]
    pub use crate::engine::Search;
    #[cfg(feature = "os")]
    pub use crate::engine::debug::Trace;
    pub use crate::engine::{Counts, DebugFlags, Engine, Stage, Tunable, Usage};
    // For ashlar-malloc and for tests. Programs in Rust have the fork handlers registered for them.
    pub use crate::faces::dump::dump_obj;
    #[cfg(feature = "os")]
    #[doc(hidden)]
    pub use crate::faces::fork;
    pub use crate::faces::global::Ashlar;
    pub use crate::faces::kmalloc::{
        KMALLOC_MAX_CACHE_SIZE, KMALLOC_MAX_SIZE, ZERO_SIZE_PTR, kcalloc, kfree, kfree_bulk, kfree_sized, kmalloc,
        kmalloc_aligned, kmalloc_array, kmalloc_size_roundup, krealloc, ksize, kvmalloc, kzalloc,
    };
    // For ashlar-c, whose functions pass on where they return to.
    #[cfg(feature = "os")]
    #[doc(hidden)]
    pub use crate::faces::kmalloc::{PLAIN_FLAGS, SLOW_FLAGS, kmalloc_called_from, kzalloc_called_from};
    pub use crate::faces::kmem_cache::{CacheRef, KmemCache};
    pub use crate::faces::malloc;
    pub use crate::faces::numa::{kmalloc_on, node_of, nodes};
    pub use crate::faces::prefill::PrefilledSheaf;
    #[cfg(feature = "os")]
    pub use crate::faces::profile;
    #[cfg(feature = "os")]
    pub use crate::faces::stats::print_stats;
    pub use crate::faces::stats::{Stats, stats};
    // For ashlar-malloc, which replaces `dlopen`.
    #[cfg(feature = "os")]
    #[doc(hidden)]
    pub use crate::faces::stats::{print_stats_in_any_case, set_deepbind_counter};
    // For the lab, which simulates larger machines from how long locks are held.
    #[doc(hidden)]
    pub use crate::faces::probe::{LockProbe, LocksHeld};
    // For the `pthread_create` of ashlar-malloc.
    #[cfg(feature = "os")]
    #[doc(hidden)]
    pub use crate::faces::reaper::reaper_follows;
    #[cfg(feature = "os")]
    pub use crate::faces::reaper::{start_reaper, stop_reaper};
    pub use crate::faces::typed::{Cache, CacheBox, Constructed, LazyCache};
    pub use crate::pages::arena::ArenaSource;
    pub use crate::pages::zone::ZoneStats;
    pub use crate::percpu::Mode;
    pub use crate::percpu::area::MAX_CACHES;
    pub use crate::percpu::sheaf::MAX_SHEAF_CAPACITY;
    pub use crate::slab::cache::MAX_NAME;
    pub use crate::slab::counters::SlowPathStats;
    // A figure of SLAB, for tests.
    #[doc(hidden)]
    pub use crate::slab::IndexArray;
    pub use crate::slab::MAX_OBJECT_SIZE;

    /// The version of this library.
    pub const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// Starts the allocator if it is not up, and tells how CPU-local sections are protected.
    pub fn mode() -> Mode {
        crate::boot::ensure();
        crate::percpu::mode()
    }

    /// Figures of the page layer.
    #[place(cold)]
    pub fn zone_stats() -> ZoneStats {
        let mut stats = crate::pages::zone::ZONE.stats();
        // What a CPU keeps for its next slab is free.
        let listed = crate::percpu::pages::held_pages();
        stats.free += listed;
        stats.dirty += listed;
        stats
    }

    /// Bytes in objects too large for the zone.
    #[place(cold)]
    pub fn direct_bytes() -> usize {
        crate::pages::direct::total_bytes()
    }

    /// Bytes of metadata that were handed out: caches, sheaves, tables (not memmap).
    #[place(cold)]
    pub fn metadata_bytes() -> usize {
        crate::pages::meta::META.used()
    }

    /// Tells the allocator that a CPU does not run any more, with the number that the
    /// [`Platform`] gives it. Its sheaves are emptied, and its page lists. From then on drains
    /// empty it without asking it. Any CPU may call this, once the other is in no section and will
    /// begin none before [`cpu_online`]. Returns false if there is no such CPU.
    ///
    /// A dead CPU that calls the allocator all the same is served without sheaves.
    #[cfg(not(feature = "os"))]
    pub fn cpu_dead(cpu: u32) -> bool {
        crate::cache::reaper::cpu_dead(cpu)
    }

    /// Undoes [`cpu_dead`]. Any CPU may call this, before the other calls the allocator; or that
    /// one itself. All CPUs count as online at the start, also those that never run. Returns false
    /// if there is no such CPU.
    #[cfg(not(feature = "os"))]
    pub fn cpu_online(cpu: u32) -> bool {
        crate::cache::reaper::cpu_online(cpu)
    }

    /// Does what other CPUs asked this one for: drains that could not wait for it. A CPU that
    /// allocates or frees does this by itself; an idle one does it here. Kernels without
    /// [`Platform::fence`] call it before a CPU idles.
    ///
    /// With a [clock](Platform::clock_ms), the first call of any CPU in each quarter of a second
    /// also looks for free memory: pages that have been free for the decay time go back to the
    /// [`PageSource`], and stocks that were not used to their slabs. A kernel calls this from a
    /// thread that wakes up now and then; ticks that were missed are made up for.
    ///
    /// May be called wherever memory may be freed, but with interrupts off it keeps them off for
    /// long, and drains are not complete then.
    #[cfg(not(feature = "os"))]
    pub fn poll() {
        crate::cache::reaper::poll();
    }

    /// Brings every cached object back to its slab and gives all free memory back to the system, at
    /// once. Returns the number of pages, of [`PAGE_SIZE`] bytes, given back.
    #[ashlar_macros::place(cold)]
    pub fn reap() -> usize {
        crate::cache::reaper::reap_now()
    }
}
