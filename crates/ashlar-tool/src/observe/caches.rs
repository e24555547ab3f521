//! Walks the registry: caches, their counters, and the names of merged ones.

use ashlar::window::Window;

use super::memory::{Fields, MAX_STRUCTURE, ReadError, Reader, printable};
use super::report::{Alias, Cache, Events, Tunables};

/// The longest name that the tool reads.
const MAX_NAME: u8 = 63;
/// The most nodes, lists, lines of counters and barns of a cache.
const MANY: u64 = 1024;
/// The most names of merged caches.
const MAX_ALIASES: usize = 1 << 16;
/// The most CPUs.
const MAX_CPUS: u32 = 1 << 13;
const SHEAF_PAGE: u64 = 2048;

/// A cache and where it lies.
pub(super) struct Found {
    pub(super) address: u64,
    pub(super) slot: u16,
    pub(super) cache: Cache,
}

/// Returns the existing caches, in the order of the registry. Slabs and free objects in them are
/// not counted yet.
pub(super) fn walk(reader: &Reader<'_>, window: &Window) -> Result<Vec<Found>, ReadError> {
    let registry = window.places.registry;
    let at = |offset: u32| registry.wrapping_add(u64::from(offset));
    let count = reader.word(at(window.registry.count))?;
    if count > u64::from(window.constants.most_caches.min(1 << 16)) {
        return Err(ReadError::Nonsense("there are too many caches"));
    }
    let table = reader.bytes(at(window.registry.caches), count as usize * 8)?;
    let mut found = Vec::new();
    for address in table.chunks_exact(8).map(|word| word.u64_at(0)) {
        found.extend(cache(reader, window, address?)?);
    }
    Ok(found)
}

/// Returns the cache at an address; `None` for the entry of a destroyed one.
fn cache(reader: &Reader<'_>, window: &Window, address: u64) -> Result<Option<Found>, ReadError> {
    let layout = &window.cache;
    if layout.bytes > MAX_STRUCTURE {
        return Err(ReadError::Nonsense("a cache is too large"));
    }
    let raw = reader.bytes(address, layout.bytes as usize)?;
    let raw = raw.as_slice();
    if raw.u32_at(layout.serial)? == 0 {
        return Ok(None);
    }
    let engine = raw.byte(layout.engine)?;
    let engine = window.engines.iter().position(|&byte| byte == engine);
    let engine = engine.and_then(|place| ashlar::Engine::ALL.get(place)).map_or("?", |engine| engine.id());
    let (stride, order) = (raw.u64_at(layout.stride)?, raw.byte(layout.order)?);
    if stride == 0 || order > 16 {
        return Err(ReadError::Nonsense("the shape of a cache"));
    }
    let slab_bytes = window.page_bytes() << order;
    let mut cache = Cache {
        name: name(raw, layout.name, layout.name_len)?,
        engine: engine.to_owned(),
        objsize: raw.u32_at(layout.object_size)?.into(),
        stride,
        align: raw.u64_at(layout.align)?,
        order,
        slab_bytes,
        objperslab: (slab_bytes / stride).min(raw.u16_at(layout.max_objects)?.into()),
        refcount: raw.u32_at(layout.refcount)?,
        tunables: Tunables {
            sheaf_capacity: raw.u64_at(layout.sheaf_capacity)?,
            barn_limit: raw.u64_at(layout.barn_limit)?,
            min_partial: raw.u64_at(layout.min_partial)?,
            cpu_partial: raw.u64_at(layout.cpu_partial)?,
            remote_node_defrag_ratio: raw.u16_at(layout.defrag_ratio)?,
        },
        ..Cache::default()
    };
    for node in reader.slice(raw.slice_at(layout.nodes)?, window.node.bytes, MANY)? {
        let node = node.as_slice();
        count_lines(reader, window, node, &mut cache)?;
        for list in reader.slice(node.slice_at(window.node.lists)?, window.list.bytes, MANY)? {
            add(&mut cache.events.list_locks, list.u64_at(window.list.taken)?);
            add(&mut cache.events.lock_waits, list.u64_at(window.list.waited)?);
        }
    }
    for node in reader.slice(raw.slice_at(layout.sheaf_nodes)?, window.sheaf_node.bytes, MANY)? {
        // An entry of the registry keeps the barns of an earlier cache of another engine.
        if engine == ashlar::Engine::Sheaves.id() {
            count_barns(reader, window, &node, &mut cache)?;
        }
    }
    if engine.starts_with("slob") {
        for tally in reader.slice(raw.slice_at(layout.tallies)?, window.tally.bytes, MANY)? {
            let (allocs, frees) = (tally.u64_at(window.tally.allocs)?, tally.u64_at(window.tally.frees)?);
            add(&mut cache.events.alloc_slow, allocs);
            add(&mut cache.events.free_slow, frees);
        }
        cache.active = cache.events.alloc_slow.saturating_sub(cache.events.free_slow);
    }
    cache.bytes = cache.slabs.saturating_mul(slab_bytes);
    Ok(Some(Found { address, slot: raw.u16_at(layout.slot)?, cache }))
}

fn name(raw: &[u8], at: u32, len: u32) -> Result<String, ReadError> {
    let len = raw.byte(len)?.min(MAX_NAME);
    let bytes = (at as usize).checked_add(len.into()).and_then(|end| raw.get(at as usize..end));
    bytes.map(printable).ok_or(ReadError::Nonsense("the name of a cache"))
}

fn add(sum: &mut u64, more: u64) {
    *sum = sum.wrapping_add(more);
}

/// Adds the counters of one node, of which each CPU has a line.
fn count_lines(reader: &Reader<'_>, window: &Window, node: &[u8], cache: &mut Cache) -> Result<(), ReadError> {
    let layout = &window.line;
    let (mut taken, mut given, mut objects) = (0, 0, 0);
    for line in reader.slice(node.slice_at(window.node.lines)?, layout.bytes, MANY)? {
        let events = &mut cache.events;
        add(&mut events.sheaf_refill, line.u64_at(layout.sheaf_refill)?);
        add(&mut events.sheaf_flush, line.u64_at(layout.sheaf_flush)?);
        add(&mut events.order_fallback, line.u64_at(layout.order_fallback)?);
        add(&mut events.remote_free, line.u64_at(layout.remote_free)?);
        add(&mut taken, line.u64_at(layout.alloc_slab)?);
        add(&mut given, line.u64_at(layout.free_slab)?);
        add(&mut objects, line.u64_at(layout.objects)?);
    }
    add(&mut cache.events.alloc_slab, taken);
    add(&mut cache.events.free_slab, given);
    cache.slabs = cache.slabs.saturating_add(taken.saturating_sub(given));
    // A sum that misses a slab on its way between two CPUs may be negative.
    cache.objects = cache.objects.saturating_add(if objects as i64 >= 0 { objects } else { 0 });
    Ok(())
}

/// Adds the barns and the evicted objects of one node.
fn count_barns(reader: &Reader<'_>, window: &Window, node: &[u8], cache: &mut Cache) -> Result<(), ReadError> {
    let layout = &window.barn;
    add(&mut cache.evicted, node.u64_at(window.sheaf_node.evicted)?);
    for barn in reader.slice(node.slice_at(window.sheaf_node.barns)?, layout.bytes, MANY)? {
        let Events { barn_get, barn_get_fail, barn_put, barn_put_fail, robbed, .. } = &mut cache.events;
        add(barn_get, barn.u64_at(layout.get)?);
        add(barn_get_fail, barn.u64_at(layout.get_fail)?);
        add(barn_put, barn.u64_at(layout.put)?);
        add(barn_put_fail, barn.u64_at(layout.put_fail)?);
        add(robbed, barn.u64_at(layout.robbed)?);
        add(&mut cache.events.barn_locks, barn.u64_at(layout.taken)?);
        add(&mut cache.events.lock_waits, barn.u64_at(layout.waited)?);
        add(&mut cache.events.alloc_slow, barn.u64_at(layout.alloc_slow)?);
        add(&mut cache.events.free_slow, barn.u64_at(layout.free_slow)?);
        add(&mut cache.in_barns, barn.u64_at(layout.objects)?);
        add(&mut cache.full_sheaves, barn.u64_at(layout.full)?);
        add(&mut cache.empty_sheaves, barn.u64_at(layout.empty)?);
    }
    Ok(())
}

/// Counts the objects on the sheaves of all CPUs.
pub(super) fn count_sheaves(reader: &Reader<'_>, window: &Window, caches: &mut [Found]) -> Result<(), ReadError> {
    let constants = &window.constants;
    if constants.cpus > MAX_CPUS || constants.area_shift > 20 {
        return Err(ReadError::Nonsense("there are too many CPUs"));
    }
    let sheaves = |found: &&Found| found.cache.engine == ashlar::Engine::Sheaves.id();
    let slots = || caches.iter().filter(sheaves).map(|found| usize::from(found.slot));
    let (Some(first), Some(last)) = (slots().min(), slots().max()) else { return Ok(()) };
    for cpu in 0..u64::from(constants.cpus) {
        let area = window.places.percpu.wrapping_add(cpu << constants.area_shift);
        let area = reader.bytes(area.wrapping_add(first as u64), last - first + 16)?;
        for found in caches.iter_mut().filter(|found| sheaves(&&**found)) {
            let offset = (usize::from(found.slot) - first) as u32;
            for word in [offset, offset + 8] {
                let top = area.u64_at(word)?;
                add(&mut found.cache.on_cpus, if top == window.places.null_top { 0 } else { objects(reader, top)? });
            }
        }
    }
    Ok(())
}

/// Returns the number of objects in the sheaf with this top.
fn objects(reader: &Reader<'_>, top: u64) -> Result<u64, ReadError> {
    let page = reader.word(top & !(SHEAF_PAGE - 1))?;
    let base = top & !((SHEAF_PAGE >> (page >> 1 & 3)) - 1);
    let info = if base == top & !(SHEAF_PAGE - 1) { page } else { reader.word(base)? };
    let capacity = (info >> 8 & 0xff).saturating_sub(1);
    let free = ((top - base) / 8).saturating_sub(1);
    Ok(capacity.saturating_sub(free))
}

/// Returns the names of merged caches, the oldest first.
pub(super) fn aliases(reader: &Reader<'_>, window: &Window, caches: &[Found]) -> Result<Vec<Alias>, ReadError> {
    let layout = &window.alias;
    let name_end = layout.name.saturating_add(u32::from(MAX_NAME));
    let ends = [name_end, layout.name_len, layout.cache, layout.object_size, layout.next];
    let bytes = ends.into_iter().max().unwrap_or(0).saturating_add(8);
    if bytes > MAX_STRUCTURE {
        return Err(ReadError::Nonsense("an alias is too large"));
    }
    let mut next = reader.word(window.places.registry.wrapping_add(window.registry.aliases.into()))?;
    let mut found = Vec::new();
    while next != 0 {
        if found.len() == MAX_ALIASES {
            return Err(ReadError::TooMuch);
        }
        let raw = reader.bytes(next, bytes as usize)?;
        let raw = raw.as_slice();
        let cache = raw.u64_at(layout.cache)?;
        let cache = caches.iter().find(|found| found.address == cache);
        found.push(Alias {
            name: name(raw, layout.name, layout.name_len)?,
            cache: cache.map_or("?", |found| &found.cache.name).to_owned(),
            objsize: raw.u64_at(layout.object_size)?,
        });
        next = raw.u64_at(layout.next)?;
    }
    Ok(found)
}
