//! The serial line, and the device by which the kernel ends QEMU.

use core::fmt::{Arguments, Write};

use qemu_exit::QEMUExit;
use spin::Mutex;
use uart_16550::SerialPort;
use x86_64::instructions::interrupts::without_interrupts;

/// What each line of figures begins with.
pub const MARK: &str = "ashlar-kernel: ";

// SAFETY: the first serial port of a PC is at this address, and nothing else in this kernel uses
// it.
static PORT: Mutex<SerialPort> = Mutex::new(unsafe { SerialPort::new(0x3f8) });

/// Sets the serial port up. Called once, before the first line.
pub fn start() {
    PORT.lock().init();
}

/// Prints a line.
pub fn line(text: Arguments) {
    // The port accepts everything.
    without_interrupts(|| writeln!(PORT.lock(), "{MARK}{text}")).unwrap_or(());
}

/// Prints a line after [`MARK`].
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::machine::console::line(format_args!($($text)*)) };
}

/// Ends the machine, with QEMU's exit code 33 if all is well, and 35 if not.
pub fn end(well: bool) -> ! {
    // SAFETY: the lab starts QEMU with `isa-debug-exit` at this port.
    let device = unsafe { qemu_exit::X86::new(0xf4, 33) };
    if well { device.exit_success() } else { device.exit(17) }
}

/// Says why the kernel cannot go on, and ends the machine. Another CPU that was printing may be
/// stopped for ever, so the lock is not waited for.
pub fn fail(why: Arguments) -> ! {
    x86_64::instructions::interrupts::disable();
    // SAFETY: as for `PORT`. Bytes of two CPUs may mix, which is better than silence.
    let mut port = unsafe { SerialPort::new(0x3f8) };
    writeln!(port, "\n{MARK}failed: {why}").unwrap_or(());
    end(false)
}

#[panic_handler]
fn panicked(info: &core::panic::PanicInfo) -> ! {
    fail(format_args!("{info}"))
}
