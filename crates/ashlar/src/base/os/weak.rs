//! Addresses of symbols that the program, the C library or the linker may or may not define.

/// Returns the address in a GOT entry: null if the symbol, declared weak by `.weak` in assembly, is
/// undefined.
#[doc(hidden)]
#[macro_export]
macro_rules! address_of {
    ($symbol:literal) => {{
        let address: *const core::ffi::c_void;
        // SAFETY: reads a GOT entry of this object.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!(
                concat!("mov {}, [rip + ", $symbol, "@GOTPCREL]"),
                out(reg) address,
                options(nostack, readonly)
            );
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!(
                concat!("adrp {0}, :got:", $symbol),
                concat!("ldr {0}, [{0}, :got_lo12:", $symbol, "]"),
                out(reg) address,
                options(nostack, readonly)
            );
        };
        address
    }};
}
