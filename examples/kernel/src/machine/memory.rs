//! Memory: frames of 2 MiB, each of a node, and the window of addresses in which ashlar has them.
//!
//! A page of the window gets its frame when it is first touched, by the fault. By then ashlar has
//! said, by [`PageSource::bind`], which node the page belongs to. A page that is there stays, so no
//! CPU has to forget a translation.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use ashlar::{NodeId, PageSource};
use pvh::start_info::{MemmapTableEntry, MemmapType};
use spin::Mutex;
use x86_64::PhysAddr;
use x86_64::instructions::interrupts::without_interrupts;
use x86_64::structures::paging::page_table::PageTableEntry;
use x86_64::structures::paging::{PageTable, PageTableFlags as Flags};

use super::MOST_NODES;
use super::tables::Found;

/// Bytes of a frame, and of a page of the window.
const FRAME: u64 = 2 << 20;
/// Where the window begins: at the 128th entry of the first table.
const WINDOW: usize = 128 << 39;
/// Directories of the window, and its pages. With several nodes ashlar sets addresses aside for
/// each, so the window is larger than memory.
const DIRECTORIES: usize = 4;
const PAGES: usize = DIRECTORIES * 512;

unsafe extern "C" {
    static mut boot_map: Table;
    static kernel_end: u8;
}

/// What is known of a page of the window.
#[derive(Clone, Copy, Default)]
struct Page {
    committed: bool,
    node: u8,
    /// The node that its frame is from.
    from: Option<u8>,
}

/// The frames that nothing has taken yet, and the pages.
struct Memory {
    /// For each node: ranges of frames, of which the first is used up first.
    free: [[(u64, u64); 4]; MOST_NODES],
    /// Frames that are free and not promised to a committed page.
    spare: usize,
    pages: [Page; PAGES],
}

impl Memory {
    /// Takes a frame from `node`, or from another one if it has none. Returns it and its node.
    fn take(&mut self, node: u8) -> Option<(u64, u8)> {
        for node in (0..MOST_NODES).map(|step| (usize::from(node) + step) % MOST_NODES) {
            if let Some(range) = self.free[node].iter_mut().find(|(start, end)| start < end) {
                range.0 += FRAME;
                return Some((range.0 - FRAME, node as u8));
            }
        }
        None
    }
}

static MEMORY: Mutex<Memory> = Mutex::new(Memory {
    free: [[(0, 0); 4]; MOST_NODES],
    spare: 0,
    pages: [Page { committed: false, node: 0, from: None }; PAGES],
});

/// Returns an entry of a table.
///
/// # Safety
/// The table is one of those below or the first one, and nothing else refers to the entry as long
/// as this is used.
unsafe fn entry(table: *mut Table, index: usize) -> &'static mut PageTableEntry {
    // SAFETY: as the caller promises.
    let table = unsafe { &mut *table };
    &mut table.0[index]
}

#[repr(C, align(4096))]
struct Table(PageTable);

static mut POINTERS: Table = Table(PageTable::new());
static mut WINDOW_DIRECTORIES: [Table; DIRECTORIES] = [const { Table(PageTable::new()) }; DIRECTORIES];

/// Memory of node 0 that the other allocators take turns with.
#[derive(Clone, Copy)]
pub struct Arena {
    pub start: usize,
    pub bytes: usize,
}

/// Finds the frames in the map of the loader and the ranges of the tables, takes `arena` bytes for
/// the other allocators, and opens the window. Called once, by the first CPU.
pub fn start(map: &[MemmapTableEntry], found: &Found, arena: u64) -> Result<Arena, &'static str> {
    let after_kernel = (&raw const kernel_end).addr() as u64;
    let mut memory = MEMORY.lock();
    let all = [super::tables::Range { start: 0, end: u64::MAX, node: 0 }];
    let ranges = if found.memory().is_empty() { &all } else { found.memory() };
    for range in ranges {
        for part in map.iter().filter(|part| part.ty() == MemmapType::Ram) {
            let start = part.addr.max(range.start).max(after_kernel).next_multiple_of(FRAME);
            // What lies above 4 GiB is not mapped.
            let end = (part.addr + part.size).min(range.end).min(4 << 30) / FRAME * FRAME;
            if start < end {
                let free = memory.free[range.node as usize].iter_mut().find(|(start, end)| start == end);
                *free.ok_or("memory in too many pieces")? = (start, end);
                memory.spare += ((end - start) / FRAME) as usize;
            }
        }
    }
    let first = memory.free[0].iter_mut().find(|(start, end)| end - start >= arena);
    let first = first.ok_or("node 0 has too little memory")?;
    first.1 -= arena;
    let start = first.1 as usize;
    memory.spare -= (arena / FRAME) as usize;
    // SAFETY: one CPU runs, and nothing else refers to these tables, which are mapped to
    // themselves. The entry of the first one is unused until here.
    unsafe {
        let usual = Flags::PRESENT | Flags::WRITABLE;
        let directories = &raw const WINDOW_DIRECTORIES;
        for number in 0..DIRECTORIES {
            let directory = directories.cast::<Table>().wrapping_add(number).addr() as u64;
            entry(&raw mut POINTERS, number).set_addr(PhysAddr::new(directory), usual);
        }
        entry(&raw mut boot_map, 128).set_addr(PhysAddr::new((&raw const POINTERS).addr() as u64), usual);
    }
    Ok(Arena { start, bytes: arena as usize })
}

/// Returns the bytes of each node that ashlar may have.
pub fn bytes_of(node: usize) -> u64 {
    without_interrupts(|| MEMORY.lock().free[node].iter().map(|(start, end)| end - start).sum())
}

/// Gives the page at `address` its frame. Called by the fault, with interrupts off. Returns false
/// for addresses that nothing has committed.
pub fn fault(address: u64) -> bool {
    let Some(index) = page_of(address as usize) else { return false };
    let mut memory = MEMORY.lock();
    let page = memory.pages[index];
    if !page.committed {
        return false;
    }
    if page.from.is_some() {
        // Another CPU was faster.
        return true;
    }
    // There is one: the page was committed, which took it out of the spare ones.
    let Some((frame, node)) = memory.take(page.node) else { return false };
    // SAFETY: the frame is free memory, mapped to itself; and the lock is held, so the entry
    // changes here alone. The page had none, so no CPU remembers one.
    unsafe {
        (frame as *mut u8).write_bytes(0, FRAME as usize);
        let flags = Flags::PRESENT | Flags::WRITABLE | Flags::HUGE_PAGE;
        let directory = (&raw mut WINDOW_DIRECTORIES).cast::<Table>().add(index / 512);
        entry(directory, index % 512).set_addr(PhysAddr::new(frame), flags);
    }
    memory.pages[index].from = Some(node);
    true
}

/// Returns the node of the frame at an address of the window.
pub fn node_of(address: usize) -> Option<u8> {
    page_of(address).and_then(|index| without_interrupts(|| MEMORY.lock().pages[index].from))
}

fn page_of(address: usize) -> Option<usize> {
    address.checked_sub(WINDOW).map(|offset| offset / FRAME as usize).filter(|&index| index < PAGES)
}

/// The window, as ashlar's source of memory.
pub struct Window {
    used: AtomicUsize,
}

pub static SOURCE: Window = Window { used: AtomicUsize::new(0) };

/// The pages that a range touches.
fn pages(at: NonNull<u8>, bytes: usize) -> core::ops::Range<usize> {
    let start = at.addr().get() - WINDOW;
    start / FRAME as usize..(start + bytes).div_ceil(FRAME as usize)
}

// SAFETY: `reserve` moves one counter, so ranges never overlap. A committed page has a frame
// promised, and gets it, full of zeros, when it is touched. Nothing is released. No method calls
// the allocator.
unsafe impl PageSource for Window {
    fn page_size(&self) -> usize {
        4096
    }

    fn zone_bytes(&self) -> usize {
        // Addresses; `commit` refuses what memory does not have. Ranges that begin within a page of
        // the window take up to a page more.
        (PAGES - 4) * FRAME as usize
    }

    fn reserve(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let used = self.used.load(Ordering::Relaxed).next_multiple_of(align);
        let end = used.checked_add(bytes)?;
        if end > PAGES * FRAME as usize {
            return None;
        }
        // Called while one CPU runs.
        self.used.store(end, Ordering::Relaxed);
        NonNull::new((WINDOW + used) as *mut u8)
    }

    unsafe fn commit(&self, at: NonNull<u8>, bytes: usize) -> bool {
        without_interrupts(|| {
            let mut memory = MEMORY.lock();
            let new = pages(at, bytes).filter(|&index| !memory.pages[index].committed).count();
            if new > memory.spare {
                return false;
            }
            memory.spare -= new;
            pages(at, bytes).for_each(|index| memory.pages[index].committed = true);
            true
        })
    }

    unsafe fn release(&self, _: NonNull<u8>, _: usize) -> bool {
        false
    }

    unsafe fn bind(&self, at: NonNull<u8>, bytes: usize, node: NodeId) {
        without_interrupts(|| {
            let mut memory = MEMORY.lock();
            pages(at, bytes).for_each(|index| memory.pages[index].node = node.0);
        });
    }

    fn map_direct(&self, _: usize) -> Option<NonNull<u8>> {
        None
    }

    unsafe fn unmap_direct(&self, _: NonNull<u8>, _: usize) {}
}
