//! Adds blocks to the zone and publishes them. [`super::super::layout`] chooses the addresses.

use core::ptr::NonNull;

use super::extents::{self, Stretch};
use super::frontier::{Frontier, Part, TABLE_BLOCKS, commit_up_to};
use super::{Guard, MEMMAP, NodeBlocks, Table, Zone};
use crate::base::source::Refusal;
use crate::base::sync::Ordering;
use crate::base::units::{BLOCK_PAGES, BLOCK_SIZE, NodeId, PAGE_SIZE};
use crate::pages::layout::{Layout, Supply};

/// The most blocks that a node commits at once beyond a request's need.
const MAX_COMMIT_BLOCKS: u32 = 32;
/// The most block numbers that a node sets aside at once, of several nodes, while it is small.
const NUMBERS_AT_ONCE: u32 = 64;
/// A node of a small zone sets aside a share of it at once that each node can have this many times.
/// Nodes then get numbers as they need them, and none takes those of the others in advance.
const SHARES: u32 = 8;
/// The number of steps past a mapping in the way of the zone or of its tables, each longer, before
/// growth fails.
const DETOURS: u32 = 24;
/// The longest step: 128 GiB of the zone, and of the largest table 1 GiB.
const FURTHEST: u32 = 1 << 16;

impl Zone {
    /// Takes over the zone's part of the layout, for `nodes` nodes. Start-up calls it once. Commits
    /// no pages.
    pub(crate) fn init(&self, layout: &Layout, nodes: usize) {
        let base = layout.zone.start & !(BLOCK_SIZE - 1);
        // SAFETY: start-up runs once, and no other thread uses the zone yet.
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
            // If there is no memory for the array now, the first growth tries again.
            if let Some(array) = extents::array(blocks.extents.room_wanted()) {
                blocks.extents.move_to(array);
            }
        }
        let [heads, class, _, owners, _] = layout.tables;
        MEMMAP.publish(base, class, heads, owners);
    }

    /// Adds at least `want` blocks to the node, unless it no longer has `seen` blocks, because then
    /// another thread grew it. Returns its blocks with the zone lock held; `None` if there is no
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
        // Growth by an eighth needs few system calls, and charges few unused pages under strict
        // overcommit.
        let want = u32::try_from(want).ok()?;
        let step = want.max((seen / 8).min(MAX_COMMIT_BLOCKS));
        // What is set aside is used up first: numbers that are left over would have no memory.
        let aside = frontier.set_aside[usize::from(node.0)].len();
        let step = if aside < want { step } else { step.min(aside) };
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

    /// Commits `count` blocks for a node with the tables for them, and publishes their pages.
    /// Returns the blocks.
    #[inline(never)]
    fn commit(&self, frontier: &mut Frontier, supply: Supply, node: NodeId, count: u32) -> Option<Stretch> {
        let nodes = self.nodes();
        let mut detour = 1;
        for _ in 0..DETOURS {
            let start = if nodes == 1 { frontier.next } else { self.numbers_for(frontier, node, count)? };
            let more = Stretch { start, end: start.checked_add(count).filter(|&end| end <= frontier.limit)? };
            // The tables come first, because entries without a block do no harm.
            let with_tables = Stretch { start, end: more.end.max(frontier.next) };
            let tables = self.commit_tables(frontier, supply, with_tables);
            let refusal = tables.and_then(|()| self.commit_pages(supply, node, more));
            let passed = match refusal {
                Ok(()) => more.end,
                // Another mapping is there. The next attempt starts behind it, or behind the next
                // part of it.
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

    /// Returns the first of `count` block numbers set aside for one of several nodes. Sets more
    /// aside if needed.
    #[cold]
    #[inline(never)]
    #[place(background)]
    fn numbers_for(&self, frontier: &mut Frontier, node: NodeId, count: u32) -> Option<u32> {
        let aside = frontier.set_aside[usize::from(node.0)];
        if aside.len() >= count {
            return Some(aside.start);
        }
        // Large nodes set more aside, so that stretches stay few.
        let seen = self.node[usize::from(node.0)].lock().extents.blocks();
        let share = (frontier.limit / (SHARES * self.nodes() as u32)).clamp(1, NUMBERS_AT_ONCE);
        let supply = self.supply.get()?;
        let mut detour = NUMBERS_AT_ONCE;
        for _ in 0..DETOURS {
            // Fresh numbers continue the old stretch, unless another node took those between. The
            // rest of the old stretch then stays addresses without memory.
            let kept = if aside.end == frontier.next { aside.len() } else { 0 };
            let missing = count - kept;
            let wanted = missing.max(seen / 8).checked_next_multiple_of(share)?;
            let fresh = wanted.min(frontier.limit - frontier.next);
            if fresh < missing {
                return None;
            }
            let more = Stretch { start: frontier.next, end: frontier.next + fresh };
            match self.commit_tables(frontier, supply, more) {
                Ok(()) => {
                    for number in more.numbers() {
                        self.owner(number).store(node.0, Ordering::Relaxed);
                    }
                    let aside = Stretch { start: more.start - kept, end: more.end };
                    frontier.set_aside[usize::from(node.0)] = aside;
                    frontier.next = aside.end;
                    return Some(aside.start);
                }
                Err(Refusal::Taken) => frontier.next = more.start.saturating_add(detour).min(frontier.limit),
                Err(Refusal::NoMemory) => return None,
            }
            detour = (detour * 2).min(FURTHEST);
        }
        None
    }

    /// Commits the tables, and the shadow if there is one, for `blocks`. Blocks before them that
    /// belong to no node may stay without entries: no page of theirs is ever in use.
    fn commit_tables(&self, frontier: &mut Frontier, supply: Supply, blocks: Stretch) -> Result<(), Refusal> {
        // Entries of fewer blocks than a word of [`Table::Empties`] has are not told apart.
        let first = blocks.start as usize / 64 * 64;
        let end = blocks.end as usize;
        for (table, start) in Table::ALL.into_iter().zip(&self.tables) {
            if table == Table::Owners && self.nodes() == 1 {
                continue;
            }
            let start = start.load(Ordering::Relaxed);
            let done = &mut frontier.committed[table as usize];
            let most = table.bytes(frontier.limit as usize);
            let [need, good] = [end, end.next_multiple_of(TABLE_BLOCKS)].map(|blocks| table.bytes(blocks).min(most));
            // SAFETY: the range is the part of the table behind the committed part.
            unsafe { commit_up_to(supply, start, done, Part { from: table.bytes(first), need, good })? };
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
        // SAFETY: the blocks lie behind the end of the zone, so nothing was committed there.
        unsafe { supply.commit(from, to)? };
        if self.nodes() > 1
            && let Some(at) = NonNull::new(from as *mut u8)
        {
            // SAFETY: the range is the zone's own, and was just committed.
            unsafe { supply.source().bind(at, to - from, node) };
        }
        Ok(())
    }

    /// Publishes the pages of the zone up to its end to all layers.
    pub(super) fn publish(&self, frontier: &Frontier) {
        let pages = frontier.next as usize * BLOCK_PAGES;
        MEMMAP.grow_to(pages);
        if let Some((shadow, _)) = self.shadow() {
            (shadow.grown)(pages * PAGE_SIZE);
        }
    }
}
