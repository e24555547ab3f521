//! The machine: how it is entered, its CPUs, its memory, its interrupts and its serial line.

pub mod clock;
pub mod console;
pub mod cpus;
pub mod interrupts;
pub mod memory;
pub mod tables;

use core::arch::global_asm;

global_asm!(include_str!("boot.s"), options(att_syntax));

unsafe extern "C" {
    fn pvh_start() -> !;
}

pvh::xen_elfnote_phys32_entry!(pvh_start);

/// Most CPUs that this kernel has room for.
pub const MOST_CPUS: usize = 64;
/// Most nodes.
pub const MOST_NODES: usize = 8;
