//! The page layer: the zone, lists of pages, metadata, mappings, and when memory goes back.

use ashlar::window::{RUNNING, Window};

use super::memory::{Fields, MAX_STRUCTURE, ReadError, Reader};
use super::report::{Decay, Pages};

/// The most nodes.
const MAX_NODES: u32 = 64;
/// The most CPUs.
const MAX_CPUS: u32 = 1 << 13;
/// No block.
const NONE: u32 = u32::MAX;

/// Returns the figures of the zone.
pub(super) fn zone(reader: &Reader<'_>, window: &Window) -> Result<Pages, ReadError> {
    let (layout, constants) = (&window.zone_node, &window.constants);
    if constants.nodes > MAX_NODES || layout.bytes > MAX_STRUCTURE {
        return Err(ReadError::Nonsense("there are too many nodes"));
    }
    let tick = reader.half(window.places.tick)?;
    let mut pages = Pages { decay_ms: constants.decay_ms, ..Pages::default() };
    let mut oldest = 0;
    for node in 0..u64::from(constants.nodes) {
        let node = window.places.zone_nodes.wrapping_add(node * u64::from(layout.bytes));
        let node = reader.bytes(node, layout.bytes as usize)?;
        let node = node.as_slice();
        let page = window.page_bytes();
        let add = |sum: &mut u64, pages: u64| *sum = sum.saturating_add(pages.saturating_mul(page));
        add(&mut pages.committed_bytes, u64::from(node.u32_at(layout.blocks)?) * window.block_pages());
        add(&mut pages.free_bytes, node.u64_at(layout.free)?);
        add(&mut pages.dirty_bytes, node.u64_at(layout.dirty)?);
        pages.zone_locks = pages.zone_locks.wrapping_add(node.u64_at(layout.taken)?);
        pages.zone_lock_waits = pages.zone_lock_waits.wrapping_add(node.u64_at(layout.waited)?);
        let block = node.u32_at(layout.oldest)?;
        if block != NONE {
            let at = u64::from(block) * u64::from(window.block.bytes) + u64::from(window.block.stamp);
            let stamp = reader.half(window.places.blocks.wrapping_add(at))?;
            oldest = oldest.max(tick.wrapping_sub(stamp));
        }
    }
    let listed = listed(reader, window)?;
    pages.free_bytes = pages.free_bytes.saturating_add(listed);
    pages.dirty_bytes = pages.dirty_bytes.saturating_add(listed);
    let tick_ms = constants.tick_ms.max(1);
    // A block is visited when it is older than half of the decay time.
    let half = (constants.decay_ms / tick_ms).max(1).div_ceil(2);
    pages.oldest_ms = u64::from(oldest) * u64::from(tick_ms);
    pages.decay = match () {
        () if pages.dirty_bytes == 0 => Decay::Nothing,
        () if reader.half(window.places.wanted)? == 0 && oldest <= half => Decay::Resting,
        () if oldest > half => Decay::Due,
        () => Decay::Later,
    };
    Ok(pages)
}

/// Returns the bytes of free pages that CPUs keep before the zone.
fn listed(reader: &Reader<'_>, window: &Window) -> Result<u64, ReadError> {
    let (layout, cpus) = (&window.page_lists, window.constants.cpus);
    let lists = reader.word(window.places.page_lists)?;
    if lists == 0 {
        return Ok(0);
    }
    if cpus > MAX_CPUS || layout.orders > 10 {
        return Err(ReadError::Nonsense("there are too many lists of pages"));
    }
    let mut bytes = 0u64;
    for cpu in 0..u64::from(cpus) {
        for order in 0..layout.orders {
            let list = lists.wrapping_add(cpu * u64::from(layout.bytes)).wrapping_add(layout.lists.into());
            let list = list.wrapping_add(u64::from(order) * u64::from(layout.list_bytes));
            let count = reader.word(list.wrapping_add(layout.count.into()))?;
            bytes = bytes.saturating_add(count.saturating_mul(window.page_bytes() << order));
        }
    }
    Ok(bytes)
}

/// Returns the bytes of metadata that were handed out.
pub(super) fn metadata(reader: &Reader<'_>, window: &Window) -> Result<u64, ReadError> {
    let word = |offset: u32| reader.word(window.places.meta.wrapping_add(offset.into()));
    let own = word(window.meta.next)?.wrapping_sub(word(window.meta.start)?);
    Ok(own.wrapping_add(word(window.meta.used_of_lent)?))
}

/// Returns the bytes in mappings of single objects.
pub(super) fn mapped(reader: &Reader<'_>, window: &Window) -> Result<u64, ReadError> {
    reader.word(window.places.direct_bytes)
}

/// Returns whether the background thread exists.
pub(super) fn has_thread(reader: &Reader<'_>, window: &Window) -> Result<bool, ReadError> {
    Ok(reader.half(window.places.background)? == RUNNING)
}
