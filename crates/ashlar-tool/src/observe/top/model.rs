//! What `ashlar top` shows: samples, rates, growth since a mark, order and filter.

use std::collections::{HashMap, VecDeque};

use crate::args::Column;
use crate::observe::report::{Allocator, Cache, Events, Report};

/// Samples that a row remembers, for its curve.
const REMEMBERED: usize = 120;

/// One cache or process at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Item {
    pub(super) name: String,
    /// The process, in a list of processes.
    pub(super) pid: Option<i32>,
    pub(super) active: u64,
    pub(super) cached: u64,
    /// Memory of slabs; of a process, all that it holds.
    pub(super) bytes: u64,
    /// Memory of objects in use.
    pub(super) live: u64,
    pub(super) pinned: u64,
    pub(super) events: Events,
}

/// All items at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// Seconds.
    pub(super) time: f64,
    pub(super) items: Vec<Item>,
}

impl Sample {
    /// The caches of a process.
    pub(super) fn of_process(report: &Report) -> Sample {
        let items = report.caches().into_iter().map(|(name, cache)| of_cache(name, cache)).collect();
        Sample { time: report.time, items }
    }

    /// The processes.
    pub(super) fn of_all(reports: &[Report]) -> Sample {
        let time = reports.iter().map(|report| report.time).fold(0.0, f64::max);
        Sample { time, items: reports.iter().map(of_report).collect() }
    }
}

fn of_cache(name: String, cache: &Cache) -> Item {
    Item {
        name,
        pid: None,
        active: cache.active,
        cached: cache.cached,
        bytes: cache.bytes,
        live: cache.active.saturating_mul(cache.objsize),
        pinned: cache.pinned_bytes,
        events: cache.events.clone(),
    }
}

fn of_report(report: &Report) -> Item {
    let mut item = Item { name: format!("{} {}", report.pid, report.name), pid: Some(report.pid), ..Item::default() };
    for Allocator { caches, used_bytes, held_bytes, mapped_bytes, pinned_bytes, .. } in &report.allocators {
        for cache in caches {
            item.active = item.active.saturating_add(cache.active);
            item.cached = item.cached.saturating_add(cache.cached);
            item.events.alloc_slow = item.events.alloc_slow.wrapping_add(cache.events.alloc_slow);
            item.events.free_slow = item.events.free_slow.wrapping_add(cache.events.free_slow);
        }
        item.live = item.live.saturating_add(*used_bytes).saturating_add(*mapped_bytes);
        item.bytes = item.bytes.saturating_add(*held_bytes).saturating_add(*mapped_bytes);
        item.pinned = item.pinned.saturating_add(*pinned_bytes);
    }
    item
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) item: Item,
    /// Growth of live bytes since the mark.
    pub(super) growth: i64,
    /// Slow allocations and frees in a second.
    pub(super) allocs: f64,
    pub(super) frees: f64,
    /// Live bytes of the last samples.
    pub(super) history: Vec<u64>,
}

impl Column {
    pub(super) const ALL: [Column; 8] = [
        Column::Name,
        Column::Active,
        Column::Cached,
        Column::Memory,
        Column::Pinned,
        Column::Growth,
        Column::Alloc,
        Column::Free,
    ];

    /// The head of the column.
    pub(super) fn head(self) -> &'static str {
        match self {
            Column::Name => "name",
            Column::Active => "active",
            Column::Cached => "cached",
            Column::Memory => "KiB",
            Column::Pinned => "pinned/K",
            Column::Growth => "growth/K",
            Column::Alloc => "alloc/s",
            Column::Free => "free/s",
        }
    }

    /// The column `steps` to the right.
    pub(super) fn moved(self, steps: usize) -> Column {
        let at = Self::ALL.iter().position(|&column| column == self).unwrap_or(0);
        Self::ALL[(at + steps) % Self::ALL.len()]
    }
}

/// The samples, and how they are shown.
#[derive(Debug)]
pub(super) struct Model {
    mark: Sample,
    before: Sample,
    now: Sample,
    history: HashMap<String, VecDeque<u64>>,
    pub(super) sort: Column,
    /// The largest last.
    pub(super) reversed: bool,
    /// Rows whose name has this text.
    pub(super) filter: String,
    pub(super) selected: usize,
}

impl Model {
    pub(super) fn new(first: Sample, sort: Column, filter: String) -> Model {
        let mut model = Model {
            mark: first.clone(),
            before: first.clone(),
            now: Sample::default(),
            history: HashMap::new(),
            sort,
            reversed: false,
            filter,
            selected: 0,
        };
        model.add(first);
        model
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, sample: Sample) {
        for item in &sample.items {
            let history = self.history.entry(item.name.clone()).or_default();
            history.push_back(item.live);
            if history.len() > REMEMBERED {
                history.pop_front();
            }
        }
        self.history.retain(|name, _| sample.items.iter().any(|item| item.name == *name));
        if !self.now.items.is_empty() {
            self.before = core::mem::take(&mut self.now);
        }
        self.now = sample;
    }

    /// Growth counts from now on.
    pub(super) fn mark(&mut self) {
        self.mark = self.now.clone();
    }

    /// The seconds since the mark.
    pub(super) fn since_mark(&self) -> f64 {
        (self.now.time - self.mark.time).max(0.0)
    }

    /// The rows in their order.
    pub(super) fn rows(&self) -> Vec<Row> {
        let of = |sample: &'_ Sample| -> HashMap<String, Item> {
            sample.items.iter().map(|item| (item.name.clone(), item.clone())).collect()
        };
        let (before, mark, nothing) = (of(&self.before), of(&self.mark), Item::default());
        let seconds = self.now.time - self.before.time;
        let rate = |now: u64, before: u64| {
            if seconds > 0.0 { now.saturating_sub(before) as f64 / seconds } else { 0.0 }
        };
        let shown = self.now.items.iter().filter(|item| item.active > 0 || item.bytes > 0);
        let mut rows: Vec<Row> = shown
            .filter(|item| item.name.contains(&self.filter))
            .map(|item| {
                let was = before.get(&item.name).unwrap_or(&nothing);
                let marked = mark.get(&item.name).unwrap_or(&nothing);
                Row {
                    growth: (item.live as i64).saturating_sub(marked.live as i64),
                    allocs: rate(item.events.alloc_slow, was.events.alloc_slow),
                    frees: rate(item.events.free_slow, was.events.free_slow),
                    history: self.history.get(&item.name).map_or(Vec::new(), |h| h.iter().copied().collect()),
                    item: item.clone(),
                }
            })
            .collect();
        rows.sort_by(|a, b| {
            let order = match self.sort {
                Column::Name => a.item.name.cmp(&b.item.name),
                Column::Active => b.item.active.cmp(&a.item.active),
                Column::Cached => b.item.cached.cmp(&a.item.cached),
                Column::Memory => b.item.bytes.cmp(&a.item.bytes),
                Column::Pinned => b.item.pinned.cmp(&a.item.pinned),
                Column::Growth => b.growth.cmp(&a.growth),
                Column::Alloc => b.allocs.total_cmp(&a.allocs),
                Column::Free => b.frees.total_cmp(&a.frees),
            };
            let order = order.then_with(|| a.item.name.cmp(&b.item.name));
            if self.reversed { order.reverse() } else { order }
        });
        rows
    }
}
