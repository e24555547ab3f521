//! The CPUs: each has a block, a stack, and a loop in which it waits for work.

use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use ashlar_in_a_kernel::{PerCpu, here};
use x86_64::instructions::interrupts;
use x86_64::registers::model_specific::GsBase;

use super::tables::Cpu;
use super::{MOST_CPUS, interrupts as controllers};

/// What all CPUs are to do: called on each, with its number.
pub struct Work<'a>(pub &'a (dyn Fn(usize) + Sync));

/// Bytes of the stack of a CPU.
const STACK: usize = 64 << 10;
/// Where the code lies that a CPU starts with, in pages of 4 KiB.
const START_UP_PAGE: u8 = 8;

#[repr(align(64))]
struct Block(PerCpu);

// SAFETY: each CPU uses its own block alone, but for the number, which does not change.
unsafe impl Sync for Block {}

static mut BLOCKS: [Block; MOST_CPUS] = [const {
    Block(PerCpu {
        this: core::ptr::null(),
        number: 0,
        depth: Cell::new(0),
        were_on: Cell::new(false),
        thread: Cell::new(0),
    })
}; MOST_CPUS];

#[repr(align(4096))]
struct Stack(#[expect(dead_code, reason = "used by its address alone")] [u8; STACK]);

static mut STACKS: [Stack; MOST_CPUS] = [const { Stack([0; STACK]) }; MOST_CPUS];

unsafe extern "C" {
    static mut next_stack: u64;
    static mut next_number: u32;
    static start_up_code: u8;
    static start_up_end: u8;
}

/// CPUs that run.
static RUNNING: AtomicU32 = AtomicU32::new(1);
/// The period of the timers, in nanoseconds.
static PERIOD: AtomicU32 = AtomicU32::new(0);
/// How often work was given out, what it is, and how many CPUs have done it.
static TURN: AtomicUsize = AtomicUsize::new(0);
static WORK: AtomicPtr<Work<'static>> = AtomicPtr::new(core::ptr::null_mut());
static DONE: AtomicU32 = AtomicU32::new(0);

/// Makes this CPU number `number`: its block, its interrupts.
pub fn become_cpu(number: u32) {
    // SAFETY: the block of this CPU, which nothing uses before.
    unsafe {
        let block = &raw mut BLOCKS[number as usize];
        (*block).0.this = &raw const (*block).0;
        (*block).0.number = number;
        // One thread for each CPU: the address of its block stands for it.
        (*block).0.thread.set(block.addr());
        GsBase::write(x86_64::VirtAddr::from_ptr(block));
    }
    controllers::load();
}

/// Starts all CPUs but the first. Returns how many run.
pub fn start(cpus: &[Cpu], period: u32) -> u32 {
    PERIOD.store(period, Ordering::Relaxed);
    let code = &raw const start_up_code;
    let bytes = (&raw const start_up_end).addr() - code.addr();
    // SAFETY: memory below 1 MiB that neither the firmware nor the loader uses any more.
    unsafe { code.copy_to((usize::from(START_UP_PAGE) * 4096) as *mut u8, bytes) };
    for (number, cpu) in (0u32..).zip(cpus).skip(1) {
        // SAFETY: the CPU before has taken its stack, so nothing reads these. The stack is this
        // CPU's alone.
        unsafe {
            (&raw mut next_stack).write_volatile((&raw const STACKS[number as usize]).addr() as u64 + STACK as u64);
            (&raw mut next_number).write_volatile(number);
        }
        controllers::start_up(cpu.apic, START_UP_PAGE);
        while RUNNING.load(Ordering::Acquire) != number + 1 {
            core::hint::spin_loop();
        }
    }
    RUNNING.load(Ordering::Relaxed)
}

/// Entered by each CPU but the first, on its own stack.
#[unsafe(no_mangle)]
extern "C" fn other_cpu(number: u32) -> ! {
    become_cpu(number);
    controllers::start(PERIOD.load(Ordering::Relaxed));
    controllers::tick(false);
    RUNNING.fetch_add(1, Ordering::Release);
    let mut turn = 0;
    loop {
        interrupts::disable();
        if TURN.load(Ordering::Acquire) == turn {
            // What wakes this CPU is delivered after it halts, not before.
            interrupts::enable_and_hlt();
            continue;
        }
        turn += 1;
        interrupts::enable();
        controllers::tick(true);
        // SAFETY: the first CPU keeps it until all are done.
        unsafe { ((*WORK.load(Ordering::Acquire)).0)(number as usize) };
        controllers::tick(false);
        DONE.fetch_add(1, Ordering::Release);
    }
}

/// Runs `work` on all CPUs, and returns when it is done on all. Called by the first CPU.
pub fn run_on_all(work: &Work<'_>) {
    let others = RUNNING.load(Ordering::Relaxed) - 1;
    DONE.store(0, Ordering::Relaxed);
    // It is used until the end of this call alone.
    WORK.store(core::ptr::from_ref(work).cast_mut().cast(), Ordering::Release);
    TURN.fetch_add(1, Ordering::Release);
    if others > 0 {
        controllers::wake_others();
    }
    controllers::tick(true);
    (work.0)(here().number as usize);
    controllers::tick(false);
    while DONE.load(Ordering::Acquire) != others {
        core::hint::spin_loop();
    }
}
