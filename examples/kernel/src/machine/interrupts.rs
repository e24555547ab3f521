//! Interrupts and exceptions: the table, the entries in assembly, and the local controllers.

use core::arch::naked_asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use ashlar_in_a_kernel::here;
use spin::Once;
use x2apic::lapic::{IpiAllShorthand, LocalApic, LocalApicBuilder, TimerDivide, TimerMode};
use x86_64::VirtAddr;
use x86_64::instructions::port::Port;
use x86_64::registers::control::Cr2;
use x86_64::structures::idt::InterruptDescriptorTable;

use super::cpus::Work;
use super::{MOST_CPUS, console, memory};

const TIMER: u8 = 32;
const WAKE: u8 = 33;
const ERROR: u8 = 34;
const SPURIOUS: u8 = 255;
/// Where the controller of each CPU has its registers.
const CONTROLLER: u64 = 0xfee0_0000;

/// Defines an entry that saves what a function may change, calls `$handler` with the address of
/// what the processor pushed, and returns. `$error` is the size of the error code.
macro_rules! entry {
    ($name:ident, $handler:path, $error:literal) => {
        #[unsafe(naked)]
        extern "C" fn $name() {
            // The processor aligns the stack to 16, and pushes 5 words, and the error code; 9 more
            // make 14. With an error code one more word aligns the stack.
            naked_asm!(
                "push rax", "push rcx", "push rdx", "push rsi", "push rdi",
                "push r8", "push r9", "push r10", "push r11",
                "cld",
                "lea rdi, [rsp + 72]",
                concat!("sub rsp, ", $error),
                "call {handler}",
                concat!("add rsp, ", $error),
                "pop r11", "pop r10", "pop r9", "pop r8",
                "pop rdi", "pop rsi", "pop rdx", "pop rcx", "pop rax",
                concat!("add rsp, ", $error),
                "iretq",
                handler = sym $handler,
            )
        }
    };
}

entry!(timer_entry, timer, "0");
entry!(wake_entry, woken, "0");
entry!(ignored_entry, ignored, "0");
entry!(page_fault_entry, page_fault, "8");
entry!(invalid_entry, invalid, "0");
entry!(protection_entry, protection, "8");

/// What a timer interrupt does besides; null for nothing.
static ON_TIMER: AtomicPtr<Work<'static>> = AtomicPtr::new(core::ptr::null_mut());
/// Timer interrupts so far, of all CPUs.
pub static TIMERS: AtomicU64 = AtomicU64::new(0);

/// The controllers, one for each CPU.
struct Controllers([UnsafeCell<Option<LocalApic>>; MOST_CPUS]);

// SAFETY: each CPU uses its own element alone, with interrupts off.
unsafe impl Sync for Controllers {}

static CONTROLLERS: Controllers = Controllers([const { UnsafeCell::new(None) }; MOST_CPUS]);

/// Runs `with` on the controller of this CPU.
fn controller<R>(with: impl FnOnce(&mut LocalApic) -> R) -> R {
    x86_64::instructions::interrupts::without_interrupts(|| {
        // SAFETY: the element of this CPU, and interrupts are off, so nothing else here has it.
        let own = unsafe { &mut *CONTROLLERS.0[here().number as usize].get() };
        with(own.as_mut().expect("the controller was started"))
    })
}

/// Has each timer interrupt do `work`, or nothing.
///
/// # Safety
/// The work stays in place until this was called with `None` and all CPUs have gone on since.
pub unsafe fn on_timer(work: Option<&Work<'_>>) {
    let work = work.map_or(core::ptr::null_mut(), |work| core::ptr::from_ref(work).cast_mut().cast());
    ON_TIMER.store(work, Ordering::Release);
}

extern "C" fn timer(_: u64) {
    // SAFETY: the controller of this CPU, in an interrupt, where interrupts are off.
    controller(|own| unsafe { own.end_of_interrupt() });
    // SAFETY: as `on_timer` demands.
    if let Some(work) = unsafe { ON_TIMER.load(Ordering::Acquire).as_ref() } {
        TIMERS.fetch_add(1, Ordering::Relaxed);
        (work.0)(here().number as usize);
    }
}

extern "C" fn woken(_: u64) {
    // SAFETY: as in `timer`.
    controller(|own| unsafe { own.end_of_interrupt() });
}

extern "C" fn ignored(_: u64) {}

/// The address of an instruction that was interrupted.
fn instruction(frame: *const u64) -> u64 {
    // SAFETY: the processor pushed it there.
    unsafe { *frame }
}

extern "C" fn page_fault(error_and_frame: *const u64) {
    let address = Cr2::read_raw();
    if !memory::fault(address) {
        let at = instruction(error_and_frame.wrapping_add(1));
        console::fail(format_args!("page fault at {address:#x} by the instruction at {at:#x}"));
    }
}

extern "C" fn invalid(frame: *const u64) {
    console::fail(format_args!("an exception at {:#x}", instruction(frame)));
}

extern "C" fn protection(error_and_frame: *const u64) {
    console::fail(format_args!("a protection fault at {:#x}", instruction(error_and_frame.wrapping_add(1))));
}

/// Loads the table of interrupts on this CPU, and makes it on the first.
pub fn load() {
    static TABLE: Once<InterruptDescriptorTable> = Once::new();
    let table = TABLE.call_once(|| {
        let mut table = InterruptDescriptorTable::new();
        let at = |entry: extern "C" fn()| VirtAddr::new(entry as usize as u64);
        // SAFETY: each entry saves what it changes and returns as an interrupt does, and has the
        // error code where the processor pushes one.
        unsafe {
            table[TIMER].set_handler_addr(at(timer_entry));
            table[WAKE].set_handler_addr(at(wake_entry));
            table[ERROR].set_handler_addr(at(invalid_entry));
            table[SPURIOUS].set_handler_addr(at(ignored_entry));
            table.page_fault.set_handler_addr(at(page_fault_entry));
            table.general_protection_fault.set_handler_addr(at(protection_entry));
            table.double_fault.set_handler_addr(at(protection_entry));
            table.invalid_opcode.set_handler_addr(at(invalid_entry));
            table.divide_error.set_handler_addr(at(invalid_entry));
        }
        table
    });
    table.load();
}

/// Starts the controller of this CPU, with a timer interrupt every `period` nanoseconds.
pub fn start(period: u32) {
    // The old controllers of a PC stay silent.
    // SAFETY: their mask registers.
    unsafe {
        Port::<u8>::new(0x21).write(0xff);
        Port::<u8>::new(0xa1).write(0xff);
    }
    let mut builder = LocalApicBuilder::new();
    builder.timer_vector(TIMER.into()).error_vector(ERROR.into()).spurious_vector(SPURIOUS.into());
    // QEMU counts nanoseconds.
    builder.timer_mode(TimerMode::Periodic).timer_divide(TimerDivide::Div2).timer_initial((period / 2).max(1));
    builder.set_xapic_base(CONTROLLER);
    match builder.build() {
        Ok(mut own) => {
            // SAFETY: the registers are mapped to themselves, and the table of interrupts is there.
            unsafe { own.enable() };
            // SAFETY: the element of this CPU, which takes no interrupts yet.
            unsafe { *CONTROLLERS.0[here().number as usize].get() = Some(own) };
        }
        Err(why) => console::fail(format_args!("{why}")),
    }
}

/// Ends the wait of all other CPUs.
pub fn wake_others() {
    // SAFETY: all have an entry for it.
    controller(|own| unsafe { own.send_ipi_all(WAKE, IpiAllShorthand::AllExcludingSelf) });
}

/// Turns the timer of this CPU on or off.
pub fn tick(on: bool) {
    // SAFETY: the timer has an entry.
    controller(|own| unsafe { if on { own.enable_timer() } else { own.disable_timer() } });
}

/// Starts the CPU with this controller at `page` 4096-byte pages: an INIT and two start-up
/// interrupts.
pub fn start_up(apic: u32, page: u8) {
    let wait = || (0..20_000).for_each(|_| core::hint::spin_loop());
    // Without x2APIC, the number is in the upper byte.
    let to = apic << 24;
    // SAFETY: the page holds the code that a CPU starts with.
    controller(|own| unsafe {
        own.send_init_ipi(to);
        wait();
        own.send_sipi(page, to);
        wait();
        own.send_sipi(page, to);
    });
}
