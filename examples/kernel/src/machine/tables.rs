//! The tables of the firmware: which CPUs there are, and which node has which CPU and memory.

use core::pin::Pin;
use core::ptr::NonNull;

use acpi::madt::{Madt, MadtEntry};
use acpi::sdt::{SdtHeader, Signature};
use acpi::{AcpiHandler, AcpiTable, AcpiTables, PhysicalMapping};

use super::{MOST_CPUS, MOST_NODES};

/// A CPU: the number of its interrupt controller, and its node.
#[derive(Clone, Copy, Default)]
pub struct Cpu {
    pub apic: u32,
    pub node: u32,
}

/// Memory of a node, from `start` to `end`.
#[derive(Clone, Copy, Default)]
pub struct Range {
    pub start: u64,
    pub end: u64,
    pub node: u32,
}

/// What the tables say.
pub struct Found {
    cpus: [Cpu; MOST_CPUS],
    count: usize,
    memory: [Range; 4 * MOST_NODES],
    ranges: usize,
    pub nodes: u32,
}

impl Found {
    /// The CPUs that can be used, in the order of the table.
    pub fn cpus(&self) -> &[Cpu] {
        &self.cpus[..self.count]
    }

    /// The ranges of memory that have a node.
    pub fn memory(&self) -> &[Range] {
        &self.memory[..self.ranges]
    }
}

/// All memory is mapped to itself, so a table is where its address says.
#[derive(Clone)]
struct Identity;

impl AcpiHandler for Identity {
    unsafe fn map_physical_region<T>(&self, address: usize, size: usize) -> PhysicalMapping<Self, T> {
        let at = NonNull::new(address as *mut T).expect("a table is not at address 0");
        // SAFETY: the first 4 GiB are mapped to themselves, and tables of a PC lie below.
        unsafe { PhysicalMapping::new(address, at, size, size, Identity) }
    }

    fn unmap_physical_region<T>(_: &PhysicalMapping<Self, T>) {}
}

/// The table of affinities. Its entries are read here: the crate has no reader in this version, and
/// the one of later versions takes the length of an entry for two bytes.
#[repr(C, packed)]
struct Srat {
    header: SdtHeader,
    reserved: [u8; 12],
}

// SAFETY: the table begins with the header, and has this signature.
unsafe impl AcpiTable for Srat {
    const SIGNATURE: Signature = Signature::SRAT;

    fn header(&self) -> &SdtHeader {
        &self.header
    }
}

/// The bytes of the entries of a table.
fn entries(table: Pin<&Srat>) -> &[u8] {
    let length = table.header.length as usize;
    let start: *const Srat = table.get_ref();
    // SAFETY: the crate mapped the whole table, whose length is in its header.
    unsafe { core::slice::from_raw_parts(start.cast::<u8>(), length) }.get(size_of::<Srat>()..).unwrap_or(&[])
}

fn word(entry: &[u8], at: usize) -> u64 {
    entry.get(at..at + 4).map_or(0, |bytes| u64::from(u32::from_le_bytes(bytes.try_into().unwrap_or_default())))
}

fn long(entry: &[u8], at: usize) -> u64 {
    word(entry, at) | word(entry, at + 4) << 32
}

/// Reads the tables. `root` is the address that the loader told.
pub fn read(root: u64) -> Result<Found, &'static str> {
    // SAFETY: the loader found the signature at this address.
    let tables = unsafe { AcpiTables::from_rsdp(Identity, root as usize) }.map_err(|_| "no tables of ACPI")?;
    let mut found = Found {
        cpus: [Cpu::default(); MOST_CPUS],
        count: 0,
        memory: [Range::default(); 4 * MOST_NODES],
        ranges: 0,
        nodes: 1,
    };
    let madt = tables.find_table::<Madt>().map_err(|_| "no table of CPUs")?;
    for entry in madt.get().entries() {
        if let MadtEntry::LocalApic(cpu) = entry
            && cpu.flags & 1 != 0
        {
            *found.cpus.get_mut(found.count).ok_or("more CPUs than this kernel has room for")? =
                Cpu { apic: u32::from(cpu.apic_id), node: 0 };
            found.count += 1;
        }
    }
    // A machine without nodes has no such table.
    let Ok(srat) = tables.find_table::<Srat>() else { return Ok(found) };
    let mut rest = entries(srat.get());
    while let [kind, length, ..] = *rest {
        let Some((entry, after)) = rest.split_at_checked(usize::from(length).max(2)) else { break };
        rest = after;
        let node = match kind {
            0 if word(entry, 4) & 1 != 0 => {
                let node = u32::from(entry[2]);
                let cpus = found.cpus.iter_mut().filter(|cpu| cpu.apic == u32::from(entry[3]));
                cpus.for_each(|cpu| cpu.node = node);
                node
            }
            1 if word(entry, 28) & 1 != 0 => {
                let node = word(entry, 2) as u32;
                let start = long(entry, 8);
                *found.memory.get_mut(found.ranges).ok_or("more ranges of memory than this kernel has room for")? =
                    Range { start, end: start + long(entry, 16), node };
                found.ranges += 1;
                node
            }
            _ => continue,
        };
        if node as usize >= MOST_NODES {
            return Err("more nodes than this kernel has room for");
        }
        found.nodes = found.nodes.max(node + 1);
    }
    Ok(found)
}
