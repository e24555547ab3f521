//! ashlar as the allocator of a kernel for x86-64 with up to eight CPUs; see docs/kernel.md.
#![no_std]

use core::arch::asm;
use core::cell::Cell;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

#[global_allocator]
static HEAP: ashlar::Ashlar = ashlar::Ashlar;

/// What the kernel keeps for each CPU. Its GS base points here.
#[repr(C)]
struct PerCpu {
    this: *const PerCpu,
    number: u32,
    /// How deep sections nest, and whether interrupts were on before the first.
    depth: Cell<u32>,
    were_on: Cell<bool>,
    thread: Cell<usize>,
}

fn here() -> &'static PerCpu {
    let this: *const PerCpu;
    // SAFETY: GS points to the block of this CPU, whose first word is its own address.
    unsafe { asm!("mov {}, gs:[0]", out(reg) this, options(nostack, preserves_flags)) };
    // SAFETY: as above.
    unsafe { &*this }
}

struct Machine;

// SAFETY: interrupts are off in a section, so nothing else runs on this CPU.
unsafe impl ashlar::Platform for Machine {
    fn cpus(&self) -> u32 {
        8
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
}

/// Called once, by the boot CPU before the others run, with free memory of zeros.
#[unsafe(no_mangle)]
unsafe extern "C" fn start_heap(memory: NonNull<u8>, bytes: usize) -> bool {
    static mut SOURCE: MaybeUninit<ashlar::ArenaSource> = MaybeUninit::uninit();
    // SAFETY: no other CPU runs yet, and the memory is zeroed, writable and the caller's.
    let source = unsafe { (*&raw mut SOURCE).write(ashlar::ArenaSource::new(memory, bytes)) };
    ashlar::start_on_cpus(source, &Machine) == Ok(true)
}

#[cfg(not(test))]
#[panic_handler]
fn stops(_: &core::panic::PanicInfo) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
