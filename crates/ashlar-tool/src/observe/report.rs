//! The figures of a process, as `--json` writes them and `ashlar diff` reads them. The names that
//! the figures at exit (`ASHLAR_STATS=json`) have too mean the same here.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// The number of the form of the JSON.
pub(super) const FORM: u32 = 1;

/// One process at one moment.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    /// [`FORM`].
    pub(super) form: u32,
    pub(super) pid: i32,
    /// The number in the process's own PID namespace, if that is another one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) inner_pid: Option<i32>,
    pub(super) name: String,
    /// The letter of the state, as in `/proc/PID/stat`.
    pub(super) state: char,
    /// Seconds since 1970.
    pub(super) time: f64,
    /// Clock ticks from the boot of the machine to the start of the process.
    pub(super) started: u64,
    pub(super) rss_kib: u64,
    pub(super) peak_kib: u64,
    /// The allocators: usually one.
    pub(super) allocators: Vec<Allocator>,
}

/// One allocator of a process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Allocator {
    /// The file of the library or program that contains it.
    pub(super) file: String,
    #[serde(rename = "ashlar")]
    pub(super) version: String,
    pub(super) mode: String,
    pub(super) engine: String,
    /// `ASHLAR_OPTIONS` of the process's environment.
    pub(super) options: String,
    /// Whether the background thread exists.
    pub(super) thread: bool,
    /// Objects in use, without mappings of single objects.
    pub(super) used_bytes: u64,
    /// Taken from the system and not returned, without these mappings and metadata.
    pub(super) held_bytes: u64,
    pub(super) mapped_bytes: u64,
    pub(super) metadata_bytes: u64,
    /// Free objects in front of slabs.
    pub(super) cached_bytes: u64,
    /// Free objects in slabs that are in use.
    pub(super) pinned_bytes: u64,
    pub(super) pages: Pages,
    pub(super) large: Large,
    pub(super) caches: Vec<Cache>,
    pub(super) aliases: Vec<Alias>,
}

impl Report {
    /// Returns all caches, and a name for each: two may have one name, and `#1` tells the second.
    pub(super) fn caches(&self) -> Vec<(String, &Cache)> {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let caches = self.allocators.iter().flat_map(|allocator| &allocator.caches);
        let named = caches.map(|cache| {
            let twins = seen.entry(&cache.name).and_modify(|twins| *twins += 1).or_insert(0);
            let name = if *twins == 0 { cache.name.clone() } else { format!("{}#{twins}", cache.name) };
            (name, cache)
        });
        named.collect()
    }

    /// Returns what `ashlar doctor` wants to know of each allocator.
    pub(crate) fn standings(&self) -> impl Iterator<Item = AllocatorStanding<'_>> {
        self.allocators.iter().map(|allocator| AllocatorStanding {
            version: &allocator.version,
            file: &allocator.file,
            mode: &allocator.mode,
            options: &allocator.options,
        })
    }
}

/// What kind of allocator a process has.
pub(crate) struct AllocatorStanding<'a> {
    pub(crate) version: &'a str,
    pub(crate) file: &'a str,
    pub(crate) mode: &'a str,
    pub(crate) options: &'a str,
}

/// The page layer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Pages {
    pub(super) committed_bytes: u64,
    pub(super) free_bytes: u64,
    /// Free memory that may be resident.
    pub(super) dirty_bytes: u64,
    pub(super) zone_locks: u64,
    /// Times that a zone lock had to be waited for.
    #[serde(default)]
    pub(super) zone_lock_waits: u64,
    /// After which time free memory goes back.
    pub(super) decay_ms: u32,
    pub(super) decay: Decay,
    /// How long the oldest free memory has waited.
    pub(super) oldest_ms: u64,
}

/// When free memory goes back to the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Decay {
    /// There is none that may be resident.
    #[default]
    Nothing,
    /// Too little, or the program is idle since: no tick runs.
    Resting,
    /// After the rest of the decay time.
    Later,
    /// At the next tick.
    Due,
}

/// Large objects in the zone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Large {
    pub(super) objects: u64,
    pub(super) bytes: u64,
}

/// One cache.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Cache {
    pub(super) name: String,
    pub(super) engine: String,
    /// Usable bytes of an object.
    pub(super) objsize: u64,
    pub(super) stride: u64,
    pub(super) align: u64,
    pub(super) order: u8,
    /// Bytes of a slab; 0 in reports of old.
    #[serde(default)]
    pub(super) slab_bytes: u64,
    pub(super) objperslab: u64,
    /// Handles: more than 1 if caches were merged.
    pub(super) refcount: u32,
    /// Objects in use.
    pub(super) active: u64,
    /// Objects that the slabs can hold.
    pub(super) objects: u64,
    /// Free objects in front of slabs: on the sheaves of CPUs, in barns, and evicted.
    pub(super) cached: u64,
    pub(super) on_cpus: u64,
    pub(super) in_barns: u64,
    pub(super) evicted: u64,
    pub(super) full_sheaves: u64,
    pub(super) empty_sheaves: u64,
    pub(super) slabs: u64,
    pub(super) full: u64,
    pub(super) partial: u64,
    pub(super) empty: u64,
    /// Partial slabs of which at most a quarter is in use.
    #[serde(default)]
    pub(super) sparse: u64,
    pub(super) bytes: u64,
    /// Free objects in partial slabs.
    pub(super) pinned_bytes: u64,
    /// Free objects in slabs on lists.
    #[serde(skip)]
    pub(super) free: u64,
    pub(super) tunables: Tunables,
    pub(super) events: Events,
}

impl Cache {
    /// Returns the bytes of its empty slabs.
    pub(super) fn empty_bytes(&self) -> u64 {
        let slab = match self.slab_bytes {
            // All pages had 4 KiB then.
            0 => 4096u64.checked_shl(self.order.into()).unwrap_or(0),
            bytes => bytes,
        };
        self.empty.saturating_mul(slab)
    }
}

/// The tunables of a cache.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tunables {
    pub(super) sheaf_capacity: u64,
    pub(super) barn_limit: u64,
    pub(super) min_partial: u64,
    pub(super) cpu_partial: u64,
    pub(super) remote_node_defrag_ratio: u16,
}

/// Makes the structure of counters, and the list of their names.
macro_rules! events {
    ($($(#[$about:meta])* $name:ident),* $(,)?) => {
        /// What happened at a cache since it was created.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub(super) struct Events {
            $($(#[$about])* pub(super) $name: u64,)*
        }

        impl Events {
            /// Returns the counters with their names.
            pub(super) fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }

            /// Returns the counters since `before`; none is negative.
            pub(super) fn since(&self, before: &Events) -> Events {
                Events { $($name: self.$name.saturating_sub(before.$name)),* }
            }
        }
    };
}

events! {
    /// Allocations that found their sheaf empty.
    alloc_slow,
    /// Frees that found their sheaf full.
    free_slow,
    /// Sheaves filled from slabs.
    sheaf_refill,
    /// Batches of objects returned to slabs.
    sheaf_flush,
    alloc_slab,
    free_slab,
    order_fallback,
    /// Objects freed that another CPU or node had allocated.
    remote_free,
    barn_get,
    barn_get_fail,
    barn_put,
    barn_put_fail,
    /// Full sheaves that other CPUs took.
    robbed,
    list_locks,
    barn_locks,
    /// Times that one of these locks had to be waited for.
    lock_waits,
}

/// The name of a merged cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Alias {
    pub(super) name: String,
    /// The cache whose slabs serve it.
    pub(super) cache: String,
    pub(super) objsize: u64,
}
