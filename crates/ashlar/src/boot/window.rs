//! Opens the window at the end of start-up: collects what [`crate::base::window`] describes, and
//! has it mapped.
//!
//! The window holds addresses and offsets alone, so nothing updates it. The child of a fork
//! inherits the mapping, and its counters lie at the same addresses.

use crate::base::background::{self, TICK_MS};
use crate::base::os;
use crate::base::sync::Ordering;
use crate::base::units::{BLOCK_ORDER, PAGE_SHIFT};
use crate::base::window::{Constants, FORMAT, Places, SIGNATURE, Window};
use crate::cache::settings;
use crate::cache::{hands, registry};
use crate::engine::sheaves::{barn::Barn, node::SheafNode};
use crate::engine::{Engine, RawCache, tally::Tally};
use crate::pages::direct;
use crate::pages::layout::Table;
use crate::pages::memmap::MEMMAP;
use crate::pages::meta::{META, Meta};
use crate::pages::zone::{ZONE, Zone};
use crate::percpu::area::{AREA_SHIFT, MAX_CACHES, PERCPU, null_top};
use crate::percpu::{self, pages};
use crate::sizes::object_map::OBJECTS;
use crate::sizes::profile;
use crate::slab::counters::Counters;
use crate::slab::node::Node;
use crate::slab::partial::NodeList;

/// The version of the library, padded with zeros.
const VERSION: [u8; 16] = {
    let (text, mut padded, mut at) = (env!("CARGO_PKG_VERSION").as_bytes(), [0; 16], 0);
    while at < text.len() {
        padded[at] = text[at];
        at += 1;
    }
    padded
};

/// A window without addresses and numbers of the process.
const EMPTY: Window = Window {
    signature: SIGNATURE,
    format: FORMAT,
    bytes: Window::SIZE as u32,
    version: VERSION,
    engines: Engine::BYTES,
    places: Places {
        registry: 0,
        percpu: 0,
        null_top: 0,
        zone: 0,
        nr_pages: 0,
        class: 0,
        heads: 0,
        zone_nodes: 0,
        tick: 0,
        blocks: 0,
        direct_bytes: 0,
        meta: 0,
        page_lists: 0,
        background: 0,
        background_tid: 0,
        wanted: 0,
        mailbox: 0,
        profile: 0,
        profile_rate: 0,
        profile_started: 0,
        object_entries: 0,
        object_bias: 0,
    },
    constants: Constants {
        mode: 0,
        engine: 0,
        cpus: 0,
        area_shift: AREA_SHIFT,
        nodes: 0,
        decay_ms: 0,
        tick_ms: TICK_MS,
        most_caches: MAX_CACHES as u32,
        page_shift: PAGE_SHIFT,
        block_order: BLOCK_ORDER as u32,
    },
    registry: registry::LAYOUT.0,
    alias: registry::LAYOUT.1,
    cache: RawCache::LAYOUT,
    node: Node::LAYOUT,
    list: NodeList::LAYOUT,
    line: Counters::LAYOUT,
    sheaf_node: SheafNode::LAYOUT,
    barn: Barn::LAYOUT,
    tally: Tally::LAYOUT,
    zone_node: Zone::NODE_LAYOUT,
    block: Zone::BLOCK_LAYOUT,
    meta: Meta::LAYOUT,
    page_lists: pages::LAYOUT,
    profile: profile::LAYOUT,
};

/// Opens the window, if the options and the system allow it. Returns true, because the allocator
/// needs none.
#[inline(never)]
#[place(cold)]
pub(super) fn open() -> bool {
    let options = settings::options();
    if !options.window {
        return true;
    }
    let mut window = EMPTY;
    window.places = places();
    let constants = &mut window.constants;
    constants.mode = percpu::mode() as u32;
    let engine = Engine::ALL.iter().position(|engine| *engine == options.engine);
    constants.engine = engine.unwrap_or(0) as u32;
    constants.cpus = PERCPU.cpus.load(Ordering::Relaxed);
    constants.nodes = ZONE.nodes() as u32;
    constants.decay_ms = options.decay_ms;
    os::show(window.as_bytes());
    true
}

#[place(cold)]
fn places() -> Places {
    let [background, background_tid] = background::words();
    let [profile, profile_rate, profile_started] = profile::words();
    let [object_entries, object_bias] = OBJECTS.words();
    Places {
        registry: registry::address() as u64,
        percpu: PERCPU.base.load(Ordering::Relaxed) as u64,
        null_top: null_top() as u64,
        zone: MEMMAP.zone_base.load(Ordering::Relaxed) as u64,
        nr_pages: (&raw const MEMMAP.nr_pages).addr() as u64,
        class: MEMMAP.class.load(Ordering::Relaxed).addr() as u64,
        heads: MEMMAP.heads_at() as u64,
        zone_nodes: ZONE.nodes_at() as u64,
        tick: (&raw const ZONE.tick).addr() as u64,
        blocks: ZONE.table_at(Table::Blocks) as u64,
        direct_bytes: direct::bytes_word() as u64,
        meta: (&raw const META).addr() as u64,
        page_lists: pages::entries_word() as u64,
        background: background as u64,
        background_tid: background_tid as u64,
        wanted: background::wanted_word() as u64,
        mailbox: hands::mailbox() as u64,
        profile: profile as u64,
        profile_rate: profile_rate as u64,
        profile_started: profile_started as u64,
        object_entries: object_entries as u64,
        object_bias: object_bias as u64,
    }
}
