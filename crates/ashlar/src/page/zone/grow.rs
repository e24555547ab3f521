//! How the zone comes to its memory: one reservation at the start, committed block by block.
#![allow(unsafe_code, reason = "commits ranges of the page source")]

use core::ptr::NonNull;

use super::{Block, MEMMAP, NodeBlocks, PageSource, Zone};
use crate::page::head::PageHead;
use crate::sync::{AtomicUsize, Ordering};
use crate::units::{BLOCK_PAGES, BLOCK_SIZE, NodeId, PAGE_SIZE, align_up};

/// A node commits at most this many blocks at once.
const MAX_COMMIT_BLOCKS: usize = 32;
/// Below this a zone is not worth having: 64 KiB.
const SMALLEST_ZONE: usize = 64 << 10;
/// Bytes of one page head.
const HEAD_BYTES: usize = size_of::<PageHead>();

impl Zone {
    /// Reserves the zone for `nodes` nodes from `source`; halves its wish until the source agrees. False when
    /// not even the smallest zone can be had. Called once, by the boot.
    pub(crate) fn init(&self, source: &'static dyn PageSource, nodes: usize) -> bool {
        let mut per_node = source.zone_bytes(nodes);
        loop {
            if self.try_init(source, nodes, per_node).is_some() {
                return true;
            }
            // Whole blocks as long as there are some; an arena may be smaller than one.
            let unit = if per_node > 2 * BLOCK_SIZE { BLOCK_SIZE } else { source.page_size() };
            per_node = (per_node / 2) & !(unit - 1);
            if per_node < SMALLEST_ZONE {
                return false;
            }
        }
    }

    fn try_init(&self, source: &'static dyn PageSource, nodes: usize, per_node: usize) -> Option<()> {
        // One reservation for the zone and its tables, so that a refusal leaves nothing behind. The tables are
        // sized for one block more than fits: an arena need neither start nor end on a block.
        let most_blocks = (per_node * nodes).div_ceil(BLOCK_SIZE) + 1;
        let page = source.page_size();
        let sizes =
            [BLOCK_PAGES * 4, BLOCK_PAGES * HEAD_BYTES, size_of::<Block>()].map(|s| align_up(most_blocks * s, page));
        let align = if per_node.is_multiple_of(BLOCK_SIZE) { BLOCK_SIZE } else { page };
        let range = source.reserve(per_node * nodes + sizes.iter().sum::<usize>(), align)?.as_ptr() as usize;
        let base = range & !(BLOCK_SIZE - 1);
        let end = range + per_node * nodes;
        let blocks = (end - base).div_ceil(BLOCK_SIZE);
        let tables = align_up(end, page);
        let class = NonNull::new(tables as *mut u8)?;
        let heads = NonNull::new((tables + sizes[0]) as *mut u8)?;
        // SAFETY: the class words lie inside the reservation, behind the zone.
        if !unsafe { source.make_readable(class, sizes[0]) } {
            return None;
        }
        self.source.set(source);
        self.usable_from.store(range, Ordering::Relaxed);
        self.usable_to.store(end, Ordering::Relaxed);
        self.class.store(tables, Ordering::Relaxed);
        self.heads.store(tables + sizes[0], Ordering::Relaxed);
        self.blocks.store(tables + sizes[0] + sizes[1], Ordering::Relaxed);
        let each = blocks / nodes;
        for n in 0..nodes {
            let mut node = self.node[n].lock();
            node.first = (n * each) as u32;
            node.reserved = each as u32;
        }
        self.nodes.store(nodes as u32, Ordering::Relaxed);
        MEMMAP.publish(base, blocks * BLOCK_PAGES, class, heads);
        Some(())
    }

    /// Commits at least `want` more blocks at the end of the node's committed part.
    pub(super) fn commit_more(&self, blocks: &mut NodeBlocks, node: NodeId, want: usize) -> Option<()> {
        let source = self.source()?;
        let room = (blocks.reserved - blocks.committed) as usize;
        if want > room {
            return None;
        }
        // Grow by an eighth at a time: few system calls, and few pages charged under strict overcommit.
        let step = want.max((blocks.committed as usize / 8).min(MAX_COMMIT_BLOCKS)).min(room);
        let first = blocks.first + blocks.committed;
        let step = [step, want].into_iter().find(|&step| self.commit_blocks(source, node, first, step))?;
        let base = MEMMAP.zone_base.load(Ordering::Relaxed);
        let from = self.usable_from.load(Ordering::Relaxed);
        let to = self.usable_to.load(Ordering::Relaxed);
        for number in first..first + step as u32 {
            let start = base + number as usize * BLOCK_SIZE;
            let clip = |at: usize| at.clamp(start, start + BLOCK_SIZE) - start;
            let usable = clip(from).div_ceil(PAGE_SIZE)..clip(to) / PAGE_SIZE;
            blocks.free_pages += usable.len();
            let block = self.block(number);
            block.init(usable);
            block.level = u8::MAX;
            blocks.committed += 1;
            self.relist(blocks, number);
        }
        Some(())
    }

    fn commit_blocks(&self, source: &dyn PageSource, node: NodeId, first: u32, count: usize) -> bool {
        let (first, count) = (first as usize, count);
        let part = |array: &AtomicUsize, each: usize| {
            let size = source.page_size();
            let start = array.load(Ordering::Relaxed) + first * each;
            let end = start + count * each;
            let start = start & !(size - 1);
            (start, align_up(end, size) - start)
        };
        let base = MEMMAP.zone_base.load(Ordering::Relaxed);
        let from = (base + first * BLOCK_SIZE).max(self.usable_from.load(Ordering::Relaxed));
        let to = (base + (first + count) * BLOCK_SIZE).min(self.usable_to.load(Ordering::Relaxed));
        let ranges = [
            part(&self.class, BLOCK_PAGES * 4),
            part(&self.heads, BLOCK_PAGES * HEAD_BYTES),
            part(&self.blocks, size_of::<Block>()),
            (from, to.saturating_sub(from)),
        ];
        ranges.into_iter().all(|(start, bytes)| {
            NonNull::new(start as *mut u8).is_some_and(|at| {
                // SAFETY: each range lies inside the reservation of its array or of the zone: the node has
                // `count` reserved blocks from `first`.
                unsafe { source.commit(at, bytes) }
            })
        }) && self.commit_objects(source, first, count)
            && {
                if let Some(at) = NonNull::new(from as *mut u8) {
                    // SAFETY: the zone's own range, just committed.
                    unsafe { source.bind(at, to.saturating_sub(from), node) };
                }
                true
            }
    }
}
