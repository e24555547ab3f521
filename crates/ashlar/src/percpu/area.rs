//! Per-CPU areas: one range, 64 KiB for each CPU that can ever appear.
//!
//! An area is an array of 16-byte *slots*, one for each cache, at the same offset on every CPU:
//!
//! | word | field | values |
//! |---|---|---|
//! | 0 | main | address of the top entry of the main sheaf; the null sheaf when there is none |
//! | 1 | spare | the same for the spare sheaf |
//!
//! In malloc's slots the words have changed places on every second CPU, those of *side* 1: the word with the number of a side is the
//! main sheaf on CPUs of that side, and the spare on others. So the side of the CPU that an object was handed out on, which its
//! entry in the object map says, leads `free` to the right one (see [`crate::malloc::entry`]). Besides that text only [`side_order`] and
//! the sided sections know it; all other code speaks of main and spare.
//!
//! Slot 0 belongs to no cache: its main is the null sheaf for ever, which is empty *and* full, so every
//! fast path that is led there falls through to its slow path. Slot 1 holds the lock of the portable mode. Slot 2 is
//! as slot 0: there `free` is led by what is no live object of malloc. Then follow
//! the slots of malloc's and kmalloc's caches, at places that are known when the library is built, so that their tables
//! are constants; then malloc's table of entries by size; then the slots of all others.
//!
//! Who writes a slot: code that runs on its CPU inside a critical section (rseq), or that holds the CPU's
//! lock (portable), or that has stopped every critical section (drain).
#![allow(unsafe_code, reason = "raw per-CPU memory")]
#![cfg_attr(not(all(target_arch = "x86_64", feature = "os")), allow(unreachable_pub, reason = "no macro needs them"))]

use super::sheaf::NO_ROOM;
use crate::base::sync::{AtomicIsize, AtomicU16, AtomicU32, AtomicUsize, Ordering};
use crate::base::units::{CpuId, MAX_NODES};

/// log2 of the bytes of one CPU's area.
pub(crate) const AREA_SHIFT: u32 = 16;
const AREA_BYTES: usize = 1 << AREA_SHIFT;
/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = 16;
/// Offset of the lock word of the portable mode: slot 1.
pub(crate) const LOCK_OFFSET: usize = SLOT_BYTES;
/// Caches of malloc.
pub(crate) const MALLOC_CACHES: usize = 70;
/// Offset of the slot that an entry 0 of the object map leads to: slot 2.
const CODE_0_SLOT: u16 = 2 * SLOT_BYTES as u16;
/// Offset of the first of malloc's slots.
pub(crate) const MALLOC_SLOTS: usize = 3 * SLOT_BYTES;
/// Offset of the first of kmalloc's slots.
pub(crate) const KMALLOC_SLOTS: usize = MALLOC_SLOTS + MALLOC_CACHES * SLOT_BYTES;
/// Caches of kmalloc.
pub(crate) const KMALLOC_CACHES: usize = 16;
/// Offset of the table of malloc's entries by size (see [`crate::malloc::entry`]): on the page that has the slots of its caches.
pub(crate) const SIZE_ENTRIES: usize = KMALLOC_SLOTS + KMALLOC_CACHES * SLOT_BYTES;
/// Bytes of that table: one for each multiple of 16 up to 28 KiB.
pub(crate) const SIZE_ENTRIES_BYTES: usize = 1793;
const _: () = assert!(SIZE_ENTRIES + SIZE_ENTRIES_BYTES <= crate::base::units::PAGE_SIZE);
const FIRST_FREE_SLOT: usize = crate::base::units::align_up(SIZE_ENTRIES + SIZE_ENTRIES_BYTES, SLOT_BYTES);
/// Most caches that can exist at once, with those of malloc and kmalloc.
pub const MAX_CACHES: usize = (AREA_BYTES - FIRST_FREE_SLOT) / SLOT_BYTES + MALLOC_CACHES + KMALLOC_CACHES;
/// CPU numbers that the node map covers; higher ones are on node 0.
const MAPPED_CPUS: usize = 8192;

/// A sheaf of capacity 0: empty and full at once. Every slot without a sheaf points here.
#[repr(C, align(2048))]
struct NullSheaf([u64; 2]);
static NULL_SHEAF: NullSheaf = NullSheaf([NO_ROOM, 0]);

/// The top address of the null sheaf.
#[inline]
pub(crate) fn null_top() -> usize {
    &raw const NULL_SHEAF.0[1] as usize
}

/// What a slot without sheaves holds.
#[inline]
pub(crate) fn no_sheaves() -> [usize; 2] {
    [null_top(), null_top()]
}

/// Whether the words of the slot at `offset` lie by the CPU's side: those of malloc's caches do.
#[inline]
pub(crate) fn is_sided(offset: u16) -> bool {
    !cfg!(ashlar_unchecked) && (MALLOC_SLOTS..KMALLOC_SLOTS).contains(&usize::from(offset))
}

/// Main and spare as they lie in the slot of `cpu` at `offset`; and the other way round.
#[inline]
pub(crate) fn side_order(cpu: CpuId, offset: u16, [first, second]: [usize; 2]) -> [usize; 2] {
    if is_sided(offset) && PerCpu::side_of(cpu) == 1 { [second, first] } else { [first, second] }
}

/// What the fast paths read, in one cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct PerCpu {
    /// Address of CPU 0's area.
    pub(crate) base: AtomicUsize,
    /// Offset of the thread's rseq area from its thread pointer.
    pub(crate) rseq_offset: AtomicIsize,
    /// CPU numbers below this may use their area by rseq; 0 stops all fast paths.
    pub(crate) gate: AtomicU32,
    /// What `gate` is when nothing is stopped.
    pub(crate) gate_open: AtomicU32,
    /// Areas reserved.
    pub(crate) cpus: AtomicU32,
    pub(crate) nodes: AtomicU32,
}

/// The one set of per-CPU areas of the process. Every section stores to the rseq area before it looks at the gate, and
/// an `rseq_offset` of 0 would overwrite a word of the C library's thread control block: so no entry point reaches a
/// section before the boot has set the offset (see `kmalloc::entry`).
pub static PERCPU: PerCpu = PerCpu {
    base: AtomicUsize::new(0),
    rseq_offset: AtomicIsize::new(0),
    gate: AtomicU32::new(0),
    gate_open: AtomicU32::new(0),
    cpus: AtomicU32::new(0),
    nodes: AtomicU32::new(1),
};

#[place(large_bss)]
static CPU_TO_NODE: [crate::base::sync::AtomicU8; MAPPED_CPUS] =
    [const { crate::base::sync::AtomicU8::new(0) }; MAPPED_CPUS];
static NEXT_SLOT: AtomicU32 = AtomicU32::new(FIRST_FREE_SLOT as u32);
/// Offsets given back by destroyed caches, as a stack threaded through this table.
static FREE_SLOTS: crate::base::sync::SpinLock<u16> = crate::base::sync::SpinLock::new(0);
#[place(large_bss)]
static FREE_LINKS: [AtomicU16; AREA_BYTES / SLOT_BYTES] = [const { AtomicU16::new(0) }; AREA_BYTES / SLOT_BYTES];

impl PerCpu {
    /// Bytes of the areas of `cpus` CPUs.
    pub(crate) const fn bytes(cpus: u32) -> usize {
        cpus as usize * AREA_BYTES
    }

    /// Takes over the areas of `cpus` CPUs, committed memory from `base` on. Called once, by the
    /// boot.
    pub(crate) fn init(&self, base: usize, cpus: u32, nodes: u32, node_of: impl Fn(usize) -> u8) {
        self.base.store(base, Ordering::Relaxed);
        self.cpus.store(cpus, Ordering::Relaxed);
        self.nodes.store(nodes, Ordering::Relaxed);
        for (cpu, node) in CPU_TO_NODE.iter().enumerate() {
            let of = node_of(cpu);
            if of != 0 {
                node.store(of, Ordering::Relaxed);
            }
        }
        self.clear_slot(0);
        self.clear_slot(CODE_0_SLOT);
        for offset in (MALLOC_SLOTS..SIZE_ENTRIES).step_by(SLOT_BYTES) {
            self.clear_slot(offset as u16);
        }
    }

    /// The side of a CPU, 0 or 1: neighbours are on different ones. The texts of [`crate::malloc::entry`] and of the sided sections have it too.
    #[inline]
    pub(crate) fn side_of(cpu: CpuId) -> u8 {
        (cpu.0 & 1) as u8
    }

    /// The slot of `cpu` at `offset`.
    #[inline]
    pub(crate) fn slot(&self, cpu: CpuId, offset: u16) -> *mut usize {
        let base = self.base.load(Ordering::Relaxed);
        (base + ((cpu.0 as usize) << AREA_SHIFT) + usize::from(offset)) as *mut usize
    }

    /// Gives each area the table of malloc's entries by size: these, with the area's side. To be called before a fast path of malloc is open,
    /// and as often as a child of a fork starts malloc again: the bytes are the same.
    pub(crate) fn set_size_entries(&self, of_side_0: &[u8; SIZE_ENTRIES_BYTES]) {
        for cpu in (0..self.cpus.load(Ordering::Relaxed)).map(CpuId) {
            let table = self.slot(cpu, SIZE_ENTRIES as u16).cast::<u8>();
            let side = if cfg!(ashlar_unchecked) { 0 } else { Self::side_of(cpu) };
            for (steps, entry) in of_side_0.iter().enumerate() {
                // SAFETY: the table lies in the committed area, beyond all slots; nobody reads it before malloc's fast path is open, and who
                // has stored to it before stored the same.
                unsafe { table.add(steps).write(entry + side) };
            }
        }
    }

    /// The node of a CPU.
    #[inline]
    pub(crate) fn node_of(&self, cpu: CpuId) -> crate::base::units::NodeId {
        let node = CPU_TO_NODE.get(cpu.0 as usize).map_or(0, |n| n.load(Ordering::Relaxed));
        debug_assert!(usize::from(node) < MAX_NODES, "node numbers are dense");
        crate::base::units::NodeId(node)
    }

    /// Every CPU's slot at `offset`, without sheaves.
    fn clear_slot(&self, offset: u16) {
        for cpu in 0..self.cpus.load(Ordering::Relaxed) {
            let slot = self.slot(CpuId(cpu), offset).cast::<[usize; 2]>();
            // SAFETY: the slot lies in the committed areas; no cache uses this offset yet or any more, so
            // no critical section touches it.
            unsafe { slot.write_volatile(side_order(CpuId(cpu), offset, no_sheaves())) };
        }
    }

    /// A slot offset for a new cache; `None` when all are taken.
    pub(crate) fn claim_slot(&self) -> Option<u16> {
        let mut free = FREE_SLOTS.lock();
        let offset = if *free != 0 {
            let offset = *free;
            *free = FREE_LINKS[usize::from(offset) / SLOT_BYTES].load(Ordering::Relaxed);
            offset
        } else {
            let next = NEXT_SLOT.load(Ordering::Relaxed);
            if next as usize >= AREA_BYTES {
                return None;
            }
            NEXT_SLOT.store(next + SLOT_BYTES as u32, Ordering::Relaxed);
            next as u16
        };
        self.clear_slot(offset);
        Some(offset)
    }

    /// Gives back the offset of a destroyed cache; its slots hold no sheaves.
    pub(crate) fn release_slot(&self, offset: u16) {
        let mut free = FREE_SLOTS.lock();
        FREE_LINKS[usize::from(offset) / SLOT_BYTES].store(*free, Ordering::Relaxed);
        *free = offset;
    }
}
