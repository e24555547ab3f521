//! ashlar as the allocator of a kernel for x86-64; see docs/kernel.md.
#![no_std]

use core::arch::asm;
use core::cell::Cell;

#[global_allocator]
static HEAP: ashlar::Ashlar = ashlar::Ashlar;

/// What the kernel keeps for each CPU. Its GS base points here.
#[repr(C)]
pub struct PerCpu {
    pub this: *const PerCpu,
    pub number: u32,
    /// How deep sections nest, and whether interrupts were on before the first.
    pub depth: Cell<u32>,
    pub were_on: Cell<bool>,
    /// Even, not 0, and another number for each thread.
    pub thread: Cell<usize>,
}

/// Returns the block of this CPU.
pub fn here() -> &'static PerCpu {
    let this: *const PerCpu;
    // SAFETY: GS points to the block of this CPU, whose first word is its own address.
    unsafe { asm!("mov {}, gs:[0]", out(reg) this, options(nostack, preserves_flags)) };
    // SAFETY: as above.
    unsafe { &*this }
}

/// The machine as its firmware describes it.
pub struct Machine {
    pub cpus: u32,
    pub nodes: u32,
    pub node_of_cpu: [u32; 64],
    pub print: fn(&str),
}

// SAFETY: interrupts are off in a section, so nothing else runs on this CPU.
unsafe impl ashlar::Platform for Machine {
    fn cpus(&self) -> u32 {
        self.cpus
    }
    fn this_cpu(&self) -> u32 {
        here().number
    }
    fn this_thread(&self) -> usize {
        here().thread.get()
    }
    fn enter(&self) -> u32 {
        let flags: usize;
        // SAFETY: reads the flags, and turns interrupts off.
        unsafe { asm!("pushfq", "pop {}", "cli", out(reg) flags) };
        let cpu = here();
        if cpu.depth.replace(cpu.depth.get() + 1) == 0 {
            cpu.were_on.set(flags & 1 << 9 != 0);
        }
        cpu.number
    }
    unsafe fn leave(&self) {
        let cpu = here();
        cpu.depth.set(cpu.depth.get() - 1);
        if cpu.depth.get() == 0 && cpu.were_on.get() {
            // SAFETY: they were on before.
            unsafe { asm!("sti", options(nostack)) };
        }
    }
    fn nodes(&self) -> u32 {
        self.nodes
    }
    fn node_of_cpu(&self, cpu: u32) -> u32 {
        self.node_of_cpu[cpu as usize]
    }
    fn print(&self, line: &str) {
        (self.print)(line);
    }
}

/// Called once, by the boot CPU before the others run. `memory` may be an [`ashlar::ArenaSource`].
pub fn start_heap(memory: &'static dyn ashlar::PageSource, machine: &'static Machine) -> bool {
    ashlar::start_on_cpus(memory, machine) == Ok(true)
}
