//! How the zone comes to its blocks: see [`super::super::layout`] for where.

use core::ptr::NonNull;

use super::extents::{self, Stretch};
use super::frontier::{Frontier, TABLE_BLOCKS, commit_up_to};
use super::{Guard, MEMMAP, NodeBlocks, Table, Zone};
use crate::base::source::Refusal;
use crate::base::sync::Ordering;
use crate::base::units::{BLOCK_PAGES, BLOCK_SIZE, NodeId, PAGE_SIZE};
use crate::pages::layout::{Layout, Supply};

/// A node commits at most this many blocks at once without need.
const MAX_COMMIT_BLOCKS: u32 = 32;
/// Numbers of blocks that a node of several gets at a time come in multiples of this: see
/// [`super::empties`].
const NUMBERS_AT_ONCE: u32 = 64;
/// Times that the zone goes around a mapping in its way, further each time, before a request does
/// without growth.
const DETOURS: u32 = 24;
/// The furthest that it goes in one step: 1 GiB.
const FURTHEST: u32 = 512;
impl Zone {
    /// Takes over its part of the layout, for `nodes` nodes. Called once, by the boot; commits no
    /// pages.
    pub(crate) fn init(&self, layout: &Layout, nodes: usize) {
        let base = layout.zone.start & !(BLOCK_SIZE - 1);
        // SAFETY: the boot runs once, and no other thread knows of the zone yet.
        unsafe { self.supply.set(layout.supply) };
        self.usable_from.store(layout.zone.start, Ordering::Relaxed);
        self.usable_to.store(layout.zone.end, Ordering::Relaxed);
        for (place, start) in self.tables.iter().zip(layout.tables) {
            place.store(start, Ordering::Relaxed);
        }
        let mut frontier = self.frontier.lock();
        frontier.limit = (layout.zone.end - base).div_ceil(BLOCK_SIZE) as u32;
        frontier.committed = layout.tables;
        self.nodes.store(nodes as u32, Ordering::Relaxed);
        for node in &self.node[..nodes] {
            let mut blocks = node.lock();
            // Where there is no memory for it now, the first growth tries again.
            if let Some(array) = extents::array(blocks.extents.room_wanted()) {
                blocks.extents.move_to(array);
            }
        }
        let [heads, class, ..] = layout.tables;
        MEMMAP.publish(base, class, heads);
    }

    /// Gives the node `want` more blocks or some more, unless it has other than `seen` by now: then
    /// another thread grew it. Returns its blocks with the zone lock held; `None` when there is no
    /// memory.
    pub(super) fn grow(&self, node: NodeId, want: usize, seen: u32) -> Option<Guard<'_, NodeBlocks>> {
        let supply = self.supply.get()?;
        let lock = &self.node[usize::from(node.0)];
        let mut frontier = self.frontier.lock();
        let array = {
            let blocks = lock.lock();
            if blocks.extents.blocks() != seen {
                return Some(blocks);
            }
            blocks.extents.room_wanted()
        };
        let array = if array > 0 { Some(extents::array(array)?) } else { None };
        // Grow by an eighth at a time: few system calls, and few pages charged under strict
        // overcommit.
        let want = u32::try_from(want).ok()?;
        let step = want.max((seen / 8).min(MAX_COMMIT_BLOCKS));
        let more = self.commit(&mut frontier, supply, node, step);
        let more = more.or_else(|| self.commit(&mut frontier, supply, node, want))?;
        let mut blocks = lock.lock();
        if let Some(array) = array {
            blocks.extents.move_to(array);
        }
        blocks.extents.add(more);
        let base = MEMMAP.zone_base.load(Ordering::Relaxed);
        let from = self.usable_from.load(Ordering::Relaxed);
        let to = self.usable_to.load(Ordering::Relaxed);
        for number in more.numbers() {
            let start = base + number as usize * BLOCK_SIZE;
            let clip = |at: usize| at.clamp(start, start + BLOCK_SIZE) - start;
            let usable = clip(from).div_ceil(PAGE_SIZE)..clip(to) / PAGE_SIZE;
            blocks.free_pages += usable.len();
            let block = self.block(number);
            block.init(usable);
            block.level = u8::MAX;
            self.relist(&mut blocks, number);
        }
        Some(blocks)
    }

    /// Commits `count` blocks for a node, with what tables they need, and publishes their pages;
    /// which they are.
    #[inline(never)]
    fn commit(&self, frontier: &mut Frontier, supply: Supply, node: NodeId, count: u32) -> Option<Stretch> {
        let nodes = self.nodes();
        let mut detour = 1;
        for _ in 0..DETOURS {
            let start = if nodes == 1 { frontier.next } else { self.numbers_for(frontier, node, count)? };
            let more = Stretch { start, end: start.checked_add(count).filter(|&end| end <= frontier.limit)? };
            // The tables first: entries without a block do no harm.
            self.commit_tables(frontier, supply, more.end.max(frontier.next))?;
            let refusal = self.commit_pages(supply, node, more);
            let passed = match refusal {
                Ok(()) => more.end,
                // Something else is there. Behind it, or behind the next piece of it, the zone goes
                // on.
                Err(Refusal::Taken) => more.start.saturating_add(detour).min(frontier.limit),
                Err(Refusal::NoMemory) => return None,
            };
            if nodes == 1 {
                frontier.next = passed;
            } else {
                let aside = &mut frontier.set_aside[usize::from(node.0)];
                aside.start = passed.min(aside.end);
            }
            if refusal.is_ok() {
                self.publish(frontier);
                return Some(more);
            }
            detour = (detour * 2).min(FURTHEST);
        }
        None
    }

    /// The first of `count` block numbers that are set aside for a node of several, of fresh ones
    /// if need be.
    #[cold]
    #[inline(never)]
    #[place(background)]
    fn numbers_for(&self, frontier: &mut Frontier, node: NodeId, count: u32) -> Option<u32> {
        let aside = frontier.set_aside[usize::from(node.0)];
        if aside.len() >= count {
            return Some(aside.start);
        }
        // More for nodes that have much, so that stretches stay few. The rest of the old ones is
        // addresses without memory.
        let seen = self.node[usize::from(node.0)].lock().extents.blocks();
        let fresh = count.max(seen / 8).checked_next_multiple_of(NUMBERS_AT_ONCE)?;
        let left = frontier.limit - frontier.next;
        let fresh = if fresh <= left { fresh } else { left };
        if fresh < count {
            return None;
        }
        let aside = Stretch { start: frontier.next, end: frontier.next + fresh };
        let supply = self.supply.get()?;
        self.commit_tables(frontier, supply, aside.end)?;
        for number in aside.numbers() {
            self.owner(number).store(node.0, Ordering::Relaxed);
        }
        frontier.set_aside[usize::from(node.0)] = aside;
        frontier.next = aside.end;
        Some(aside.start)
    }

    /// Commits the tables for the blocks below `end`, and the shadow if there is one.
    fn commit_tables(&self, frontier: &mut Frontier, supply: Supply, end: u32) -> Option<()> {
        let blocks = end as usize;
        for (table, start) in Table::ALL.into_iter().zip(&self.tables) {
            if table == Table::Owners && self.nodes() == 1 {
                continue;
            }
            let start = start.load(Ordering::Relaxed);
            let done = &mut frontier.committed[table as usize];
            let most = table.bytes(frontier.limit as usize);
            let good = blocks.next_multiple_of(TABLE_BLOCKS);
            let [need, good] = [blocks, good].map(|blocks| table.bytes(blocks).min(most));
            // SAFETY: the range is the part of the table behind what is committed.
            unsafe { commit_up_to(supply, start, done, need, good)? };
        }
        self.commit_shadow(frontier, supply, blocks)
    }

    fn commit_pages(&self, supply: Supply, node: NodeId, more: Stretch) -> Result<(), Refusal> {
        let base = MEMMAP.zone_base.load(Ordering::Relaxed);
        let from = (base + more.start as usize * BLOCK_SIZE).max(self.usable_from.load(Ordering::Relaxed));
        let to = (base + more.end as usize * BLOCK_SIZE).min(self.usable_to.load(Ordering::Relaxed));
        if from >= to {
            return Ok(());
        }
        // SAFETY: blocks behind the end of the zone, so nothing was committed there.
        unsafe { supply.commit(from, to)? };
        if self.nodes() > 1
            && let Some(at) = NonNull::new(from as *mut u8)
        {
            // SAFETY: the zone's own range, just committed.
            unsafe { supply.source().bind(at, to - from, node) };
        }
        Ok(())
    }

    /// Lets all layers know of the pages of the zone up to its end.
    pub(super) fn publish(&self, frontier: &Frontier) {
        let pages = frontier.next as usize * BLOCK_PAGES;
        MEMMAP.grow_to(pages);
        if let Some((shadow, _)) = self.shadow() {
            (shadow.grown)(pages * PAGE_SIZE);
        }
    }
}
