//! Per-CPU areas: one address range, 64 KiB for each CPU that can ever appear.
//!
//! An area is an array of 16-byte *slots*, one for each cache, at the same offset on every CPU:
//!
//! | word | field | values |
//! |---|---|---|
//! | 0 | main | address of the top entry of the main sheaf; the null sheaf if there is none |
//! | 1 | spare | the same for the spare sheaf |
//!
//! Areas are laid out as follows. The offsets up to the table are constants of the build, so that
//! the tables of these caches are constants too.
//!
//! | place | use |
//! |---|---|
//! | slot 0 | belongs to no cache: its main word is the null sheaf for ever |
//! | slot 1 | the CPU lock, the number of the CPU's node, and the stops of the lock (see `bias`) |
//! | slot 2 | the bytes that the CPU hands out before the next sample of a profile |
//! | slot 3 | as slot 0; a free of an address with no live object is sent here |
//! | next | the slots of caches whose slots are sided |
//! | next | the slots of size classes |
//! | next | the table of object map entries by size |
//! | the rest | the slots of all other caches |
//! | in a kernel, the second half | far slots, one for each slot, for objects of other nodes |
//!
//! The null sheaf is empty *and* full, so every fast path that meets it falls through to its slow
//! path. So is the second null sheaf, to which both words of a *closed* slot point. The exchange of
//! a slot's words never starts from that one, so no thread can put a sheaf there.
//!
//! Sided slots: caches whose slots are sided (`Policy::sided`) swap the two words on every second
//! CPU. Word 0 is the main sheaf on CPUs of *side* 0, and word 1 on those of side 1; the other word
//! is the spare. The object map entry of a live object holds its slot and the side of the CPU that
//! allocated it. So a free on a CPU of that side reaches the main sheaf, and on other CPUs the
//! spare, without a branch. Only the fast paths' assembly, the sided sections and [`side_order`]
//! know this; all other code uses main and spare.
//!
//! A slot is written only by a thread inside a critical section on its CPU (rseq), by the holder of
//! the CPU's lock (portable), or by a drain that has stopped all critical sections.
//!
//! Lock: the lock of free slots ([`FREE_SLOTS`]) protects the released offsets. It is taken under
//! the registry lock.
#![allow(unsafe_code, reason = "raw per-CPU memory")]
#![cfg_attr(
    not(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64"))),
    allow(unreachable_pub, reason = "no macro needs them")
)]

use super::sheaf::{NO_ROOM, SHEAF_PAGE_BYTES};
use crate::base::sync::{AtomicIsize, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::base::units::{CpuId, MAX_NODES, NodeId};

/// log2 of the bytes of one CPU's area.
pub(crate) const AREA_SHIFT: u32 = 16;
pub(crate) const AREA_BYTES: usize = 1 << AREA_SHIFT;
/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = 16;
/// Offset of the gate in [`PerCpu`].
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) const GATE: usize = core::mem::offset_of!(PerCpu, gate);
/// Offset of the lock word of the portable mode: slot 1.
pub(crate) const LOCK_OFFSET: usize = SLOT_BYTES;
/// Offset of the number of the CPU's node, a byte: the second half of slot 1.
pub(crate) const NODE_OFFSET: usize = LOCK_OFFSET + SLOT_BYTES / 2;
/// Offset of the number of threads that keep sections off the lock: the last word of slot 1.
pub(crate) const STOPS_OFFSET: usize = NODE_OFFSET + SLOT_BYTES / 4;
const _: () = assert!(LOCK_OFFSET + size_of::<crate::base::sync::LockWord>() <= NODE_OFFSET);
const _: () = assert!(NODE_OFFSET < STOPS_OFFSET && STOPS_OFFSET + size_of::<u32>() <= 2 * SLOT_BYTES);
/// Offset of the bytes that a CPU hands out before the next sample of a profile, 4 bytes: slot 2.
#[cfg(feature = "os")]
pub(crate) const BUDGET_OFFSET: usize = 2 * SLOT_BYTES;
/// Number of caches whose slots are sided.
pub(crate) const SIDED_CACHES: usize = 70;
/// Offset of the slot that entry 0 of the object map leads to: slot 3.
pub(crate) const CODE_0_SLOT: u16 = 3 * SLOT_BYTES as u16;
/// Offset of the first sided slot.
pub(crate) const SIDED_SLOTS: usize = 4 * SLOT_BYTES;
/// Offset of the first slot of a size class.
pub(crate) const CLASS_SLOTS: usize = SIDED_SLOTS + SIDED_CACHES * SLOT_BYTES;
/// Number of size classes that have a slot of their own.
pub(crate) const CLASS_CACHES: usize = 16;
/// Offset of the table of object map entries by size. It shares a page with the sided slots.
pub(crate) const SIZE_ENTRIES: usize = CLASS_SLOTS + CLASS_CACHES * SLOT_BYTES;
/// Bytes of that table: one for each multiple of 16 up to 28 KiB.
pub(crate) const SIZE_ENTRIES_BYTES: usize = 1793;
const _: () = assert!(SIZE_ENTRIES + SIZE_ENTRIES_BYTES <= crate::base::units::PAGE_SIZE);
/// The end of the slots of caches. In a kernel, a far slot for each lies behind it.
const SLOTS_END: usize = if cfg!(feature = "os") { AREA_BYTES } else { AREA_BYTES / 2 };
/// The offset of the far slot of a cache, counted from its slot.
#[cfg(not(feature = "os"))]
const FAR: u16 = SLOTS_END as u16;
const FIRST_FREE_SLOT: usize = crate::base::units::align_up(SIZE_ENTRIES + SIZE_ENTRIES_BYTES, SLOT_BYTES);
/// Most caches that can exist at once, including those whose slots are sided and the size classes.
pub const MAX_CACHES: usize = (SLOTS_END - FIRST_FREE_SLOT) / SLOT_BYTES + SIDED_CACHES + CLASS_CACHES;
/// CPU numbers that the node map covers; higher ones are on node 0.
const MAPPED_CPUS: usize = 8192;

/// Two sheaves of capacity 0, which are empty and full at once. Every slot without a sheaf points
/// to the first, and every closed slot to the second. Each starts a sheaf page.
#[repr(C, align(2048))]
struct NullSheaves([u64; CLOSED + 2]);
static NULL_SHEAVES: NullSheaves = {
    let mut words = [0; CLOSED + 2];
    (words[0], words[CLOSED]) = (NO_ROOM, NO_ROOM);
    NullSheaves(words)
};
/// The place of the second sheaf.
const CLOSED: usize = SHEAF_PAGE_BYTES / size_of::<u64>();

/// Returns the top address of the null sheaf.
#[inline]
pub(crate) fn null_top() -> usize {
    &raw const NULL_SHEAVES.0[1] as usize
}

/// Returns the words of a closed slot. It has no sheaves, and gets none before it is opened: see
/// [`close`](super::drain::close).
#[inline]
pub(crate) fn closed() -> [usize; 2] {
    [&raw const NULL_SHEAVES.0[CLOSED + 1] as usize; 2]
}

/// Returns the words of a slot without sheaves.
#[inline]
pub(crate) fn no_sheaves() -> [usize; 2] {
    [null_top(), null_top()]
}

/// Returns whether the words of the slot at `offset` are swapped on CPUs of side 1.
#[inline]
pub(crate) fn is_sided(offset: u16) -> bool {
    (SIDED_SLOTS..CLASS_SLOTS).contains(&usize::from(offset))
}

/// Returns the offset of the far slot of the slot at `offset`: its main sheaf has objects of other
/// nodes than the CPU's, which the CPU freed.
#[cfg(not(feature = "os"))]
#[inline(always)]
pub(crate) fn far_slot(offset: u16) -> u16 {
    offset | FAR
}

/// Converts main and spare to the two words of the slot of `cpu` at `offset`, and back.
#[inline]
pub(crate) fn side_order(cpu: CpuId, offset: u16, [first, second]: [usize; 2]) -> [usize; 2] {
    if is_sided(offset) && PerCpu::side_of(cpu) == 1 { [second, first] } else { [first, second] }
}

/// The fields that fast paths read, in one cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct PerCpu {
    /// Address of CPU 0's area.
    pub(crate) base: AtomicUsize,
    /// Offset of the thread's rseq area from its thread pointer.
    pub(crate) rseq_offset: AtomicIsize,
    /// CPUs below this number may use their area by rseq; 0 stops all fast paths.
    pub(crate) gate: AtomicU32,
    /// The value of `gate` while no drain or hold stops the sections.
    pub(crate) gate_open: AtomicU32,
    /// Number of reserved areas.
    pub(crate) cpus: AtomicU32,
    /// A bit for each node that has CPUs.
    nodes: AtomicU64,
}

/// The per-CPU areas of the process.
///
/// Every section stores to the rseq area before it compares the gate. With an `rseq_offset` of 0,
/// that store would overwrite a word of the C library's thread control block. So no entry point may
/// reach a section before start-up has set the offset.
pub static PERCPU: PerCpu = PerCpu {
    base: AtomicUsize::new(0),
    rseq_offset: AtomicIsize::new(0),
    gate: AtomicU32::new(0),
    gate_open: AtomicU32::new(0),
    cpus: AtomicU32::new(0),
    nodes: AtomicU64::new(1),
};
const _: () = assert!(MAX_NODES <= u64::BITS as usize);

#[place(large_bss)]
static CPU_TO_NODE: [crate::base::sync::AtomicU8; MAPPED_CPUS] =
    [const { crate::base::sync::AtomicU8::new(0) }; MAPPED_CPUS];
static NEXT_SLOT: AtomicU32 = AtomicU32::new(FIRST_FREE_SLOT as u32);
/// Head of the stack of offsets that destroyed caches released; the links are in `FREE_LINKS`.
static FREE_SLOTS: crate::base::sync::SpinLock<u16> = crate::base::sync::SpinLock::new(0);
#[place(large_bss)]
static FREE_LINKS: [AtomicU16; AREA_BYTES / SLOT_BYTES] = [const { AtomicU16::new(0) }; AREA_BYTES / SLOT_BYTES];

impl PerCpu {
    /// Returns the bytes of the areas of `cpus` CPUs.
    pub(crate) const fn bytes(cpus: u32) -> usize {
        cpus as usize * AREA_BYTES
    }

    /// Takes over the areas of `cpus` CPUs, which are committed memory from `base` on. Called once,
    /// at start-up.
    pub(crate) fn init(&self, base: usize, cpus: u32, node_of: impl Fn(usize) -> u8) {
        self.base.store(base, Ordering::Relaxed);
        self.cpus.store(cpus, Ordering::Relaxed);
        for (cpu, node) in CPU_TO_NODE.iter().enumerate() {
            let of = node_of(cpu);
            if of != 0 {
                node.store(of, Ordering::Relaxed);
            }
        }
        let mut nodes = 0;
        for cpu in (0..cpus).map(CpuId) {
            let node = self.node_of(cpu).0;
            nodes |= 1 << node;
            // SAFETY: this byte of the committed area belongs to the node's number, and no other
            // thread reads it before start-up is over.
            unsafe { self.slot(cpu, NODE_OFFSET as u16).cast::<u8>().write(node) };
        }
        self.nodes.store(nodes, Ordering::Relaxed);
        self.clear_slot(0);
        self.clear_slot(CODE_0_SLOT);
        for offset in (SIDED_SLOTS..SIZE_ENTRIES).step_by(SLOT_BYTES) {
            self.clear_slot(offset as u16);
        }
    }

    /// Returns the side of a CPU, 0 or 1: the lowest bit of its number. The assembly of the sided
    /// sections and of the fast paths computes it too.
    #[inline]
    pub(crate) fn side_of(cpu: CpuId) -> u8 {
        (cpu.0 & 1) as u8
    }

    /// Returns the bytes that `cpu` hands out before the next sample of a profile, as a signed
    /// number. A critical section of the faces subtracts from them.
    #[cfg(feature = "os")]
    #[place(cold)]
    pub(crate) fn sample_budget(&self, cpu: CpuId) -> &'static AtomicU32 {
        let at = self.slot(cpu, BUDGET_OFFSET as u16).cast::<u32>();
        // SAFETY: the word is aligned, lies in the committed area of the CPU, which is never
        // unmapped, and belongs to the profile alone. The section that also writes it stores the
        // whole word by one instruction.
        unsafe { AtomicU32::from_ptr(at) }
    }

    /// Returns the slot of `cpu` at `offset`.
    #[inline]
    pub(crate) fn slot(&self, cpu: CpuId, offset: u16) -> *mut usize {
        let base = self.base.load(Ordering::Relaxed);
        (base + ((cpu.0 as usize) << AREA_SHIFT) + usize::from(offset)) as *mut usize
    }

    /// Writes the table of entries by size into each area: the given entries plus the area's side.
    /// Must be called before a fast path that reads the table is opened. The child of a fork may
    /// call it again, because it stores the same bytes.
    pub(crate) fn set_size_entries(&self, of_side_0: &[u8; SIZE_ENTRIES_BYTES]) {
        for cpu in (0..self.cpus.load(Ordering::Relaxed)).map(CpuId) {
            let table = self.slot(cpu, SIZE_ENTRIES as u16).cast::<u8>();
            let side = Self::side_of(cpu);
            for (steps, entry) in of_side_0.iter().enumerate() {
                // SAFETY: the table lies in the committed area, apart from all slots. No fast path
                // reads it before it is opened, and earlier calls stored the same bytes.
                unsafe { table.add(steps).write(entry + side) };
            }
        }
    }

    /// Returns the node of a CPU.
    #[inline]
    pub(crate) fn node_of(&self, cpu: CpuId) -> NodeId {
        let node = CPU_TO_NODE.get(cpu.0 as usize).map_or(0, |n| n.load(Ordering::Relaxed));
        debug_assert!(usize::from(node) < MAX_NODES, "node numbers are dense");
        NodeId(node)
    }

    /// Returns whether a node has CPUs. There are nodes of memory alone, such as CXL memory or HBM.
    pub(crate) fn has_cpus(&self, node: NodeId) -> bool {
        self.nodes.load(Ordering::Relaxed) >> node.0 & 1 != 0
    }

    /// Returns the number of nodes that have CPUs.
    pub(crate) fn nodes(&self) -> u32 {
        self.nodes.load(Ordering::Relaxed).count_ones()
    }

    /// Removes the sheaves from every CPU's slot at `offset`.
    fn clear_slot(&self, offset: u16) {
        for cpu in 0..self.cpus.load(Ordering::Relaxed) {
            let slot = self.slot(CpuId(cpu), offset).cast::<[usize; 2]>();
            // SAFETY: the slot lies in the committed areas. No live cache has this offset, so no
            // critical section accesses it.
            unsafe { slot.write_volatile(side_order(CpuId(cpu), offset, no_sheaves())) };
            #[cfg(not(feature = "os"))]
            // SAFETY: as above; no cache has the far slot but the one with the slot.
            unsafe {
                self.slot(CpuId(cpu), far_slot(offset)).cast::<[usize; 2]>().write_volatile(no_sheaves());
            }
        }
    }

    /// Claims a slot offset for a new cache; `None` if all are taken.
    pub(crate) fn claim_slot(&self) -> Option<u16> {
        let mut free = FREE_SLOTS.lock();
        let offset = if *free != 0 {
            let offset = *free;
            *free = FREE_LINKS[usize::from(offset) / SLOT_BYTES].load(Ordering::Relaxed);
            offset
        } else {
            let next = NEXT_SLOT.load(Ordering::Relaxed);
            if next as usize >= SLOTS_END {
                return None;
            }
            NEXT_SLOT.store(next + SLOT_BYTES as u32, Ordering::Relaxed);
            next as u16
        };
        self.clear_slot(offset);
        Some(offset)
    }

    /// Releases the offset of a destroyed cache, whose slots hold no sheaves.
    pub(crate) fn release_slot(&self, offset: u16) {
        let mut free = FREE_SLOTS.lock();
        FREE_LINKS[usize::from(offset) / SLOT_BYTES].store(*free, Ordering::Relaxed);
        *free = offset;
    }
}
