//! Static probes for tracers: `otel_memory:alloc(ptr, size, weight)` and `otel_memory:free(ptr)`,
//! at each sample and at the free of each. The profiler of OpenTelemetry attaches to them.
//!
//! A probe is a `nop` and a note in the file, in the form of SystemTap; `readelf -n` lists it. A
//! tracer that attaches replaces the `nop`. Without one, a probe costs that instruction, in code
//! that samples alone reach.

/// A probe: a `nop`, and the note that describes it and the registers of its arguments.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! probe {
    ($name:literal, $arguments:literal, $($register:tt = $value:expr),*) => {
        // SAFETY: the instruction does nothing, and the rest are notes in the file.
        unsafe {
            core::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"\", %note",
                ".balign 4",
                ".4byte 992f - 991f, 994f - 993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                // There is no section to notice a moved file by, and no semaphore.
                ".8byte 0",
                ".8byte 0",
                ".asciz \"otel_memory\"",
                concat!(".asciz \"", $name, "\""),
                concat!(".asciz \"", $arguments, "\""),
                "994: .balign 4",
                ".popsection",
                $(in($register) $value,)*
                options(nostack, preserves_flags)
            );
        }
    };
}

/// A sample was taken: its address, its size, and the bytes that it stands for.
#[place(cold)]
#[inline(never)]
pub(super) fn alloc(address: usize, size: usize, weight: u64) {
    #[cfg(target_arch = "x86_64")]
    probe!("alloc", "8@%rdi 8@%rsi 8@%rdx", "rdi" = address, "rsi" = size, "rdx" = weight);
    #[cfg(target_arch = "aarch64")]
    probe!("alloc", "8@x0 8@x1 8@x2", "x0" = address, "x1" = size, "x2" = weight);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (address, size, weight);
}

/// A sample was freed.
#[place(cold)]
#[inline(never)]
pub(super) fn free(address: usize) {
    #[cfg(target_arch = "x86_64")]
    probe!("free", "8@%rdi", "rdi" = address);
    #[cfg(target_arch = "aarch64")]
    probe!("free", "8@x0", "x0" = address);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
