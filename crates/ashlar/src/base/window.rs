//! The format of the window: what a process shows of its allocator to a reader outside of it.
//!
//! A process on ashlar has one read-only mapping named `/memfd:ashlar`, which holds a [`Window`].
//! The window states where the allocator's own counters lie in the memory of the process, and how
//! they are laid out. A reader finds the mapping in `/proc/PID/maps` and reads everything else from
//! the memory of the process, so the process itself does nothing. The window never changes. The
//! child of a fork inherits it, and the addresses are right there too. Nothing can be written
//! through it: for that there is a [`mailbox`](super::mailbox), whose address it states.
//!
//! Each `*At` structure has the offsets of the fields of one structure, in bytes; `bytes` is the
//! size of that structure in an array. A slice is two words: the address of its first element, and
//! their number. [`FORMAT`] must change with the meaning of any field, and with the words that the
//! window does not describe: class words, page heads, state words, and the info words of sheaves.
#![allow(unsafe_code, reason = "a window is its bytes")]

/// The first bytes of a window.
pub const SIGNATURE: [u8; 8] = *b"ashlar\nW";
/// The number of the format that this file describes.
pub const FORMAT: u32 = 6;
/// The name of the mapping, behind `/memfd:`.
pub const NAME: &str = "ashlar";
/// The number of engines that a window has room for.
pub const ENGINES: usize = 16;

/// A window; see the module.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// [`SIGNATURE`].
    pub signature: [u8; 8],
    /// [`FORMAT`].
    pub format: u32,
    /// The size of the window in bytes.
    pub bytes: u32,
    /// The version of the library, padded with zeros.
    pub version: [u8; 16],
    /// The value of each engine in a cache, in the order of [`crate::Engine::ALL`].
    pub engines: [u8; ENGINES],
    /// Addresses.
    pub places: Places,
    /// Numbers that never change.
    pub constants: Constants,
    /// The table of caches.
    pub registry: RegistryAt,
    /// A further name of a cache.
    pub alias: AliasAt,
    /// A cache.
    pub cache: CacheAt,
    /// The slabs of a cache on one node.
    pub node: NodeAt,
    /// A partial list.
    pub list: ListAt,
    /// The counters of one CPU.
    pub line: LineAt,
    /// The barns of a cache on one node.
    pub sheaf_node: SheafNodeAt,
    /// A barn.
    pub barn: BarnAt,
    /// The counts of a cache that shares pages.
    pub tally: TallyAt,
    /// The blocks of one node of the zone.
    pub zone_node: ZoneNodeAt,
    /// The state of a block.
    pub block: BlockAt,
    /// Metadata memory.
    pub meta: MetaAt,
    /// The lists of free pages of one CPU.
    pub page_lists: PageListsAt,
    /// The table of samples of the heap profile.
    pub profile: ProfileAt,
}

/// Addresses in the process.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// The registry.
    pub registry: u64,
    /// The area of CPU 0.
    pub percpu: u64,
    /// The top of the null sheaf.
    pub null_top: u64,
    /// The first page of the zone.
    pub zone: u64,
    /// The number of pages in the zone: a word.
    pub nr_pages: u64,
    /// The class words, 4 bytes for each page.
    pub class: u64,
    /// The page heads, 32 bytes for each page.
    pub heads: u64,
    /// The array of zone nodes.
    pub zone_nodes: u64,
    /// The number of ticks so far: 4 bytes.
    pub tick: u64,
    /// The states of blocks.
    pub blocks: u64,
    /// The bytes in mappings of single objects: a word.
    pub direct_bytes: u64,
    /// Metadata memory.
    pub meta: u64,
    /// The address of the page lists: a word, 0 if there are none.
    pub page_lists: u64,
    /// The state of the background thread: 4 bytes, [`RUNNING`] if there is one.
    pub background: u64,
    /// The number of the background thread: 4 bytes.
    pub background_tid: u64,
    /// Whether there is work for the background: 4 bytes, not 0 if there is. A tool that wrote to
    /// the mailbox writes [`ASKED`].
    pub wanted: u64,
    /// The mailbox ([`super::mailbox`]); 0 if the options closed it.
    pub mailbox: u64,
    /// The table of samples.
    pub profile: u64,
    /// Bytes between samples: a word, 0 while no profile runs.
    pub profile_rate: u64,
    /// When the profile started: a word, milliseconds of the monotonic clock.
    pub profile_started: u64,
    /// The number of entries in the object map, a byte for each 16 bytes of the zone: a
    /// word. An entry is 0 where no live object starts.
    pub object_entries: u64,
    /// What is added to the place of an entry: a word. The place is the address divided by 16, its
    /// low 16 bits rotated right by two.
    pub object_bias: u64,
}

/// The state of a background thread that exists.
pub const RUNNING: u32 = 2;

/// Work that a tool asked for: allocations see to it as well as frees.
pub const ASKED: u32 = 2;

/// Numbers that never change.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// How critical sections are protected: 1 rseq, 2 lock, 3 emulate.
    pub mode: u32,
    /// The engine of the process: its place in [`crate::Engine::ALL`].
    pub engine: u32,
    /// The number of CPUs that have an area.
    pub cpus: u32,
    /// log2 of the bytes of an area.
    pub area_shift: u32,
    /// The number of nodes of the zone.
    pub nodes: u32,
    /// Milliseconds before free memory is given back.
    pub decay_ms: u32,
    /// Milliseconds between two ticks.
    pub tick_ms: u32,
    /// The most caches.
    pub most_caches: u32,
    /// log2 of the bytes of a page.
    pub page_shift: u32,
    /// log2 of the pages of a block of the zone.
    pub block_order: u32,
}

/// Makes structures of offsets. All fields are of one type, so there is no padding.
macro_rules! offsets {
    ($($(#[$about:meta])* $name:ident { $($(#[$what:meta])* $field:ident),* $(,)? })*) => {
        $(
            $(#[$about])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name {
                $($(#[$what])* pub $field: u32,)*
            }
        )*
    };
}

offsets! {
    /// Offsets in the registry.
    RegistryAt {
        /// The addresses of the caches, a word each.
        caches,
        /// Their number: a word.
        count,
        /// The address of the first alias: a word, 0 if there is none.
        aliases,
    }
    /// Offsets in an alias.
    AliasAt {
        /// The name.
        name,
        /// Its length: a byte.
        name_len,
        /// The address of the cache: a word.
        cache,
        /// The object size that was asked for: a word.
        object_size,
        /// The address of the next alias: a word.
        next,
    }
    /// Offsets in a cache.
    CacheAt {
        /// The size of a cache.
        bytes,
        /// The name.
        name,
        /// Its length: a byte.
        name_len,
        /// Usable bytes of an object: 4 bytes.
        object_size,
        /// Bytes from one object to the next: a word.
        stride,
        /// The alignment of objects: a word.
        align,
        /// The order of a slab: a byte.
        order,
        /// The most objects in a slab: 2 bytes.
        max_objects,
        /// The empty slabs that a node keeps: a word.
        min_partial,
        /// The slice of nodes.
        nodes,
        /// The offset of its slot in the area of a CPU: 2 bytes.
        slot,
        /// The engine: a byte of [`Window::engines`].
        engine,
        /// Objects in a sheaf: a word.
        sheaf_capacity,
        /// Full sheaves that a barn may hold: a word.
        barn_limit,
        /// Free objects in the partial slabs of a CPU: a word.
        cpu_partial,
        /// See [`crate::Tunable::RemoteNodeDefragRatio`]: 2 bytes.
        defrag_ratio,
        /// The number of handles: 4 bytes.
        refcount,
        /// The creation number: 4 bytes, 0 while the entry is free.
        serial,
        /// The slice of sheaf nodes.
        sheaf_nodes,
        /// The slice of tallies.
        tallies,
    }
    /// Offsets in a node.
    NodeAt {
        /// The size of a node.
        bytes,
        /// The slice of partial lists.
        lists,
        /// The slice of lines of counters.
        lines,
    }
    /// Offsets in a partial list.
    ListAt {
        /// The size of a list.
        bytes,
        /// How often the list_lock was taken: a word.
        taken,
        /// How often it had to be waited for: a word.
        waited,
        /// The number of slabs on the list: a word.
        count,
    }
    /// Offsets in a line of counters, each a word.
    LineAt {
        /// The size of a line.
        bytes,
        /// Sheaves filled from slabs.
        sheaf_refill,
        /// Batches of objects returned to slabs.
        sheaf_flush,
        /// Slabs taken from the page layer.
        alloc_slab,
        /// Slabs returned to it.
        free_slab,
        /// Slabs of the smallest order, where the wanted order was refused.
        order_fallback,
        /// Objects that another CPU or node had allocated.
        remote_free,
        /// The objects of slabs taken less those of slabs returned; wraps around.
        objects,
    }
    /// Offsets in a sheaf node.
    SheafNodeAt {
        /// The size of a sheaf node.
        bytes,
        /// The slice of barns.
        barns,
        /// The number of evicted objects: a word.
        evicted,
    }
    /// Offsets in a barn, each a word.
    BarnAt {
        /// The size of a barn.
        bytes,
        /// How often the barn lock was taken.
        taken,
        /// How often it had to be waited for.
        waited,
        /// Objects in full sheaves.
        objects,
        /// Full sheaves.
        full,
        /// Empty sheaves.
        empty,
        /// See [`crate::BarnStats::get`].
        get,
        /// See [`crate::BarnStats::get_fail`].
        get_fail,
        /// See [`crate::BarnStats::put`].
        put,
        /// See [`crate::BarnStats::put_fail`].
        put_fail,
        /// See [`crate::BarnStats::robbed`].
        robbed,
        /// Allocations that found their sheaf empty.
        alloc_slow,
        /// Frees that found their sheaf full.
        free_slow,
    }
    /// Offsets in a tally, each a word.
    TallyAt {
        /// The size of a tally.
        bytes,
        /// Allocations.
        allocs,
        /// Frees.
        frees,
    }
    /// Offsets in a zone node.
    ZoneNodeAt {
        /// The size of a zone node.
        bytes,
        /// How often the zone lock was taken: a word.
        taken,
        /// How often it had to be waited for: a word.
        waited,
        /// The number of blocks: 4 bytes.
        blocks,
        /// Free pages: a word.
        free,
        /// Free pages that may be resident: a word.
        dirty,
        /// The number of blocks that have some of these: a word.
        dirty_blocks,
        /// The number of the block whose dirty pages are the oldest: 4 bytes, all ones for none.
        oldest,
    }
    /// Offsets in the state of a block.
    BlockAt {
        /// The size of a state.
        bytes,
        /// The tick at which its dirty pages were counted as young: 4 bytes.
        stamp,
    }
    /// Offsets in the metadata memory, each a word.
    MetaAt {
        /// An address so far before `next` as bytes were handed out.
        start,
        /// The first address that was not handed out.
        next,
        /// Bytes handed out of pages of the zone.
        used_of_lent,
    }
    /// Offsets in the page lists of one CPU.
    PageListsAt {
        /// The size of the lists of one CPU.
        bytes,
        /// The list of order 0.
        lists,
        /// The size of one list.
        list_bytes,
        /// The number of lists.
        orders,
        /// The number of runs on a list: a word.
        count,
    }
    /// Offsets in the table of samples, and in a sample.
    ProfileAt {
        /// The slice of samples.
        live,
        /// The number of places that were ever in use: a word.
        live_used,
        /// The slice of words of sites.
        words,
        /// The number of words in use: a word.
        words_used,
        /// Samples taken, freed, lost, truncated and nested, a word each.
        counts,
        /// The size of a sample.
        sample_bytes,
        /// The address of the object: a word, 0 in a free place.
        address,
        /// The bytes that were asked for: a word.
        size,
        /// When it was allocated: a word.
        born_ms,
        /// The place of its site in the words: 4 bytes.
        site,
        /// Bytes between samples at that time: 4 bytes.
        rate,
        /// The number of the thread: 4 bytes.
        thread,
        /// The name of the thread, 16 bytes, padded with zeros.
        name,
        /// The number of words of a site before its frames.
        site_head,
    }
}

const SIZE: usize = size_of::<Window>();
const _: () = {
    let offsets = size_of::<RegistryAt>() + size_of::<AliasAt>() + size_of::<CacheAt>() + size_of::<NodeAt>();
    let offsets = offsets + size_of::<ListAt>() + size_of::<LineAt>() + size_of::<SheafNodeAt>() + size_of::<BarnAt>();
    let offsets = offsets + size_of::<TallyAt>() + size_of::<ZoneNodeAt>() + size_of::<BlockAt>();
    let offsets = offsets + size_of::<MetaAt>() + size_of::<PageListsAt>() + size_of::<ProfileAt>();
    let head = 8 + 4 + 4 + 16 + ENGINES;
    assert!(SIZE == head + size_of::<Places>() + size_of::<Constants>() + offsets, "there is padding");
    assert!(SIZE <= 4096, "a window lies in one page");
    assert!(SIZE == 640 && FORMAT == 6, "a window of another size has another format");
};

impl Window {
    /// The size of a window in bytes.
    pub const SIZE: usize = SIZE;

    /// Returns the bytes of the window.
    #[place(cold)]
    pub fn as_bytes(&self) -> &[u8; SIZE] {
        // SAFETY: the structure has no padding, so each of its bytes is initialised.
        unsafe { &*core::ptr::from_ref(self).cast() }
    }

    /// Returns the bytes of a page, for any window that was read.
    pub fn page_bytes(&self) -> u64 {
        1 << self.constants.page_shift.min(20)
    }

    /// Returns the pages of a block, for any window that was read.
    pub fn block_pages(&self) -> u64 {
        1 << self.constants.block_order.min(16)
    }

    /// Returns the window that has these bytes, which may be any.
    #[place(cold)]
    pub fn from_bytes(bytes: &[u8; SIZE]) -> Window {
        // SAFETY: all fields are integers and arrays of bytes, for which any bytes are a value.
        unsafe { core::ptr::from_ref(bytes).cast::<Window>().read_unaligned() }
    }
}
