//! What SLAB keeps for a cache besides its slabs: tunables, and nodes with their lists and alien
//! caches.
#![allow(unsafe_code, reason = "fork handlers release locks without a guard")]

use super::alien::{ALIEN_LIMIT, AlienCache};
use super::array::ArrayCache;
use super::lists::Lists;
use crate::base::error::{CreateError, TuneError};
use crate::base::sync::{AtomicUsize, Ordering, SpinLock, Visit};
use crate::base::units::{NodeId, PAGE_SIZE};
use crate::engine::Tunable;
use crate::engine::tunables::{MAX_LIMIT, MAX_SHARED};
use crate::pages::meta::meta_slice;
use crate::pages::zone::ZONE;
use crate::percpu::all_cpus;
use crate::percpu::area::PERCPU;
use crate::percpu::lock;
use crate::slab::geometry::Geometry;

/// Most objects in a shared array.
const MAX_SHARED_OBJECTS: usize = 1 << 16;

/// The tunables of a cache of SLAB; the columns `limit`, `batchcount` and
/// `sharedfactor` of slabinfo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueTunables {
    /// Objects in the array of one CPU: 1 to 8192.
    pub limit: usize,
    /// Objects that move between an array and the node at a time: 1 to `limit`.
    pub batchcount: usize,
    /// Batches in the array that the CPUs of a node share: 0 to 64, and no more than 65536 objects.
    pub shared: usize,
}

#[place(cold)]
impl QueueTunables {
    /// The kernel's defaults for objects of `stride` bytes on a machine with `cpus` CPUs.
    pub(super) const fn by_size(stride: usize, cpus: u32) -> QueueTunables {
        let limit = if stride > 131_072 {
            1
        } else if stride > PAGE_SIZE {
            8
        } else if stride > 1024 {
            24
        } else if stride > 256 {
            54
        } else {
            120
        };
        let shared = if stride <= PAGE_SIZE && cpus > 1 { 8 } else { 0 };
        QueueTunables { limit, batchcount: limit.div_ceil(2), shared }
    }

    /// Applies the options of the process, each limited by the others.
    fn with(self, options: &QueueOptions) -> QueueTunables {
        let limit = options.limit.unwrap_or(self.limit);
        let by_limit = if options.limit.is_some() { limit.div_ceil(2) } else { self.batchcount };
        let batchcount = options.batchcount.unwrap_or(by_limit).min(limit);
        let shared = options.shared.unwrap_or(self.shared).min(MAX_SHARED_OBJECTS / batchcount);
        QueueTunables { limit, batchcount, shared }
    }

    pub(super) fn check(&self) -> Result<(), TuneError> {
        if !(1..=MAX_LIMIT).contains(&self.limit) {
            return Err(TuneError::Range(Tunable::Limit.expected()));
        }
        if !(1..=self.limit).contains(&self.batchcount) {
            return Err(TuneError::Range(Tunable::BatchCount.expected()));
        }
        if self.shared > MAX_SHARED || self.shared * self.batchcount > MAX_SHARED_OBJECTS {
            return Err(TuneError::Range(Tunable::Shared.expected()));
        }
        Ok(())
    }
}

/// The options of the process for queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueOptions {
    pub(crate) limit: Option<usize>,
    pub(crate) batchcount: Option<usize>,
    pub(crate) shared: Option<usize>,
    /// Objects of other nodes are returned straight to their slabs.
    pub(crate) noaliencache: bool,
}

/// The queues of one node.
pub(crate) struct Node {
    pub(super) lists: SpinLock<Lists>,
    /// An alien cache for each node, of which this node's is unused; empty on machines with one
    /// node.
    pub(super) aliens: &'static [SpinLock<AlienCache>],
}

/// The queues of a cache. In metadata memory; reused by later caches of the registry entry.
pub(crate) struct Queues {
    limit: AtomicUsize,
    batchcount: AtomicUsize,
    shared: AtomicUsize,
    pub(super) nodes: &'static [Node],
}

/// The part of [`crate::engine::EngineState`] for this engine.
#[derive(Clone, Copy)]
pub(crate) struct State {
    /// Place in the per-CPU areas. Its first word is the address of the CPU's array, 0 until it has
    /// one.
    pub(super) place: u16,
    /// The option `noaliencache` of the process.
    pub(super) noaliencache: bool,
    /// One element, or none before the first cache of this engine in this registry entry.
    pub(super) queues: &'static [Queues],
}

/// Returns the number of CPUs of a node.
fn cpus_of(node: usize) -> usize {
    all_cpus().filter(|&cpu| usize::from(PERCPU.node_of(cpu).0) == node).count()
}

#[place(cold)]
impl Queues {
    /// Makes queues for each node, in metadata memory.
    fn make() -> Option<&'static [Queues]> {
        let nodes = ZONE.nodes();
        let zero = || AtomicUsize::new(0);
        meta_slice(1, || {
            let nodes = meta_slice(nodes, || {
                let aliens = if nodes > 1 { nodes } else { 0 };
                let aliens = meta_slice(aliens, || Some(SpinLock::new(AlienCache::NEW)))?;
                Some(Node { lists: SpinLock::new(Lists::NEW), aliens })
            })?;
            Some(Queues { limit: zero(), batchcount: zero(), shared: zero(), nodes })
        })
    }

    pub(super) fn tunables(&self) -> QueueTunables {
        let read = |value: &AtomicUsize| value.load(Ordering::Relaxed);
        QueueTunables { limit: read(&self.limit), batchcount: read(&self.batchcount), shared: read(&self.shared) }
    }

    pub(super) fn set(&self, tunables: &QueueTunables) {
        self.limit.store(tunables.limit, Ordering::Relaxed);
        self.batchcount.store(tunables.batchcount, Ordering::Relaxed);
        self.shared.store(tunables.shared, Ordering::Relaxed);
    }

    /// Returns the entry of a node.
    #[inline]
    pub(super) fn node(&self, id: NodeId) -> &'static Node {
        &self.nodes[usize::from(id.0) % self.nodes.len()]
    }

    /// Derives a node's limits from the tunables, except for the shared array.
    pub(super) fn tune_node(&self, id: usize, geometry: &Geometry) {
        let tunables = self.tunables();
        let node = &self.nodes[id];
        for alien in node.aliens {
            // An alien cache above a lowered limit counts as full, and is drained at the next free.
            alien.lock().limit = if tunables.limit > 1 { ALIEN_LIMIT } else { 1 };
        }
        node.lists.lock().free_limit = (1 + cpus_of(id)) * tunables.batchcount + usize::from(geometry.max_objects);
    }
}

/// Makes a shared array of the size set by the tunables; `Some(None)` if they set none.
pub(super) fn new_shared(tunables: &QueueTunables) -> Option<Option<&'static ArrayCache>> {
    match tunables.shared * tunables.batchcount {
        0 => Some(None),
        objects => ArrayCache::new(objects, tunables.batchcount).map(Some),
    }
}

#[place(cold)]
impl State {
    pub(crate) const NONE: State = State { place: 0, noaliencache: false, queues: &[] };

    /// See [`crate::engine::Strategy::open`].
    #[inline(never)]
    pub(crate) fn open(&mut self, geometry: &Geometry, options: &QueueOptions) -> Result<(), CreateError> {
        lock::want();
        self.noaliencache = options.noaliencache;
        if self.queues.is_empty() {
            self.queues = Queues::make().ok_or(CreateError::OutOfMemory)?;
        }
        self.place = PERCPU.claim_slot().ok_or(CreateError::TooManyCaches)?;
        for cpu in all_cpus() {
            // SAFETY: the place was just claimed, so only this thread uses it; it lies in the
            // committed areas.
            unsafe { PERCPU.slot(cpu, self.place).cast::<[usize; 2]>().write_volatile([0; 2]) };
        }
        let queues = &self.queues[0];
        let tunables = QueueTunables::by_size(geometry.stride, PERCPU.cpus.load(Ordering::Relaxed)).with(options);
        queues.set(&tunables);
        for (id, node) in queues.nodes.iter().enumerate() {
            *node.lists.lock() = Lists::NEW;
            for alien in node.aliens {
                *alien.lock() = AlienCache::NEW;
                alien.reset_counts();
            }
            // The cache works without a shared array, so a failure is no error.
            node.lists.lock().shared = new_shared(&tunables).flatten();
            queues.tune_node(id, geometry);
            node.lists.reset_counts();
        }
        Ok(())
    }

    /// Visits all locks, for fork.
    pub(crate) fn for_each_lock(&self, visit: Visit<'_>) {
        let nodes = || self.queues.iter().flat_map(|queues| queues.nodes);
        nodes().flat_map(|node| node.aliens).for_each(|alien| visit(alien.word()));
        nodes().for_each(|node| visit(node.lists.word()));
    }
}
