//! A pointer that the compiler knows nothing about.

/// Gives the pointer back with its origin forgotten, in a register: the compiler may neither drop a
/// malloc+free pair (it knows what `malloc` is) nor be made to store the pointer, as `black_box`
/// would.
#[inline(always)]
#[cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    expect(
        clippy::pointers_in_nomem_asm_block,
        reason = "nothing is read through the pointer; a memory clobber would spill what the loop holds"
    )
)]
pub fn hide(ptr: *mut u8) -> *mut u8 {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    {
        let hidden;
        // SAFETY: the block holds no instruction (a comment only): it changes no register, flag or
        // memory, so `hidden` is `ptr` with its provenance passed through an opaque register.
        unsafe {
            core::arch::asm!("/* {0} */", inlateout(reg) ptr => hidden, options(nomem, nostack, preserves_flags));
        }
        hidden
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
    core::hint::black_box(ptr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hide_returns_its_argument() {
        let mut byte = 7u8;
        assert_eq!(hide(&raw mut byte), &raw mut byte);
    }
}
