//! Where a reader outside of the process finds the figures of the zone.

use core::mem::offset_of;

use super::extents::Extents;
use super::{Block, NodeBlocks, Table, Zone};
use crate::base::sync::{Ordering, SpinLock};
use crate::base::window::{BlockAt, ZoneNodeAt};
use crate::pages::block::BLOCK_STATE_BYTES;

const VALUE: usize = SpinLock::<NodeBlocks>::VALUE;

impl Zone {
    /// The figures of a node, from the start of its lock on.
    pub(crate) const NODE_LAYOUT: ZoneNodeAt = ZoneNodeAt {
        bytes: size_of::<SpinLock<NodeBlocks>>() as u32,
        taken: SpinLock::<NodeBlocks>::TAKEN as u32,
        waited: SpinLock::<NodeBlocks>::WAITED as u32,
        blocks: (VALUE + offset_of!(NodeBlocks, extents) + Extents::BLOCKS) as u32,
        free: (VALUE + offset_of!(NodeBlocks, free_pages)) as u32,
        dirty: (VALUE + offset_of!(NodeBlocks, dirty_pages)) as u32,
        dirty_blocks: (VALUE + offset_of!(NodeBlocks, dirty_blocks)) as u32,
        oldest: (VALUE + offset_of!(NodeBlocks, oldest)) as u32,
    };
    /// The state of a block.
    pub(crate) const BLOCK_LAYOUT: BlockAt =
        BlockAt { bytes: BLOCK_STATE_BYTES as u32, stamp: offset_of!(Block, stamp) as u32 };

    /// Returns the address of the first node.
    #[place(cold)]
    pub(crate) fn nodes_at(&self) -> usize {
        (&raw const self.node).addr()
    }

    /// Returns the start of a table.
    #[place(cold)]
    pub(crate) fn table_at(&self, table: Table) -> usize {
        self.tables[table as usize].load(Ordering::Relaxed)
    }
}
