//! Symbols that a program, the C library or the linker may have or not.

/// The address that a GOT entry holds: null where nobody defines the symbol, which is declared weak
/// by `.weak` in assembly.
#[doc(hidden)]
#[macro_export]
macro_rules! address_of {
    ($symbol:literal) => {{
        let address: *const core::ffi::c_void;
        // SAFETY: reads a GOT entry.
        unsafe {
            core::arch::asm!(
                concat!("mov {}, [rip + ", $symbol, "@GOTPCREL]"),
                out(reg) address,
                options(nostack, readonly)
            )
        };
        address
    }};
}
