//! Single steps: runs an operation one machine instruction at a time and calls a hook before each
//! instruction; on aarch64 before each of critical sections alone. For the test's thread only.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::{Trap, stepped};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{Trap, stepped};

/// What is called before an instruction.
pub(crate) type Hook<'a> = &'a mut dyn FnMut(&mut Trap<'_>);

/// The kernel's descriptor of a critical section (`struct rseq_cs`).
#[cfg(feature = "os")]
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) version: u32,
    pub(crate) flags: u32,
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) abort: u64,
}

/// Returns the armed critical section if the next instruction is inside it.
#[cfg(feature = "os")]
pub(crate) fn armed(rip: u64) -> Option<Section> {
    // SAFETY: the word is this thread's `rseq_cs`.
    let descriptor = unsafe { ashlar::testing::rseq_cs().read_volatile() } as *const Section;
    if descriptor.is_null() {
        return None;
    }
    // SAFETY: a value other than null was stored by a critical section and points to its
    // descriptor.
    let section = unsafe { *descriptor };
    (rip.wrapping_sub(section.start) < section.length).then_some(section)
}

/// Does what the kernel does to a thread that runs again after others ran on its CPU: moves it to
/// the abort handler if it was inside a section, and disarms it. `others` runs in between. Ends the
/// steps.
#[cfg(feature = "os")]
pub(crate) fn preempt(trap: &mut Trap<'_>, others: impl FnOnce()) {
    let section = armed(trap.rip());
    trap.stop();
    // SAFETY: this thread's `rseq_cs`; the kernel clears it in the same way.
    unsafe { ashlar::testing::rseq_cs().write_volatile(0) };
    others();
    // SAFETY: as above. Disarms the sections of `others`.
    unsafe { ashlar::testing::rseq_cs().write_volatile(0) };
    if let Some(section) = section {
        // SAFETY: the four bytes before an abort handler are code.
        let signature = unsafe { ((section.abort - 4) as *const u32).read_unaligned() };
        assert_eq!(signature, SIGNATURE, "the kernel would kill the program here");
        trap.jump(section.abort);
    }
}

/// The signature before every abort handler, which glibc registers.
#[cfg(feature = "os")]
pub(crate) const SIGNATURE: u32 = if cfg!(target_arch = "x86_64") { 0x5305_3053 } else { 0xd428_bc00 };
