//! The two clocks: ticks of the processor, and seconds of the outside.

use core::arch::x86_64::{_mm_lfence, _rdtsc};

use spin::Mutex;
use x86_64::instructions::interrupts::without_interrupts;
use x86_64::instructions::port::Port;

/// Returns the time-stamp counter. With QEMU's `-icount` it is the number of instructions that all
/// CPUs have executed.
pub fn ticks() -> u64 {
    // SAFETY: both instructions are there on every x86-64, and ring 0 may execute them.
    unsafe {
        _mm_lfence();
        _rdtsc()
    }
}

/// The two ports of the real-time clock: which register, and its value.
static CLOCK: Mutex<(Port<u8>, Port<u8>)> = Mutex::new((Port::new(0x70), Port::new(0x71)));

/// Returns the second of the minute of the real-time clock, which goes on with `-icount`, too.
pub fn second() -> u8 {
    without_interrupts(|| {
        let (register, value) = &mut *CLOCK.lock();
        // SAFETY: reads registers of the clock that every PC has.
        let mut read = |number| unsafe {
            register.write(number);
            value.read()
        };
        // Bit 7 of register A: the clock changes its registers at this moment.
        while read(0x0a) & 0x80 != 0 {
            core::hint::spin_loop();
        }
        let (raw, binary) = (read(0x00), read(0x0b) & 4 != 0);
        if binary { raw } else { (raw >> 4) * 10 + (raw & 15) }
    })
}

/// Seconds since the last look, by a clock that shows the second of the minute alone.
pub struct Watch {
    last: u8,
    seconds: u32,
}

impl Watch {
    pub fn new() -> Watch {
        Watch { last: second(), seconds: 0 }
    }

    /// Returns the seconds so far. To be called at least once a minute.
    pub fn seconds(&mut self) -> u32 {
        let now = second();
        self.seconds += u32::from((now + 60 - self.last) % 60);
        self.last = now;
        self.seconds
    }
}
