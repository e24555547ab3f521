//! Links between free objects, encoded so that an overwritten link is found.
//!
//! A link is the 16-bit index of the next free object of the same slab, or [`NO_OBJECT`]. It is
//! stored as a 64-bit word, exclusive-or'ed with the cache's secret and the byte-swapped address of
//! the link itself. The upper 48 bits of the plain word are zero. So an overwritten link decodes to
//! an index with a chance of one in 2^48 only; otherwise it is reported and not followed. Source:
//! the kernel's `CONFIG_SLAB_FREELIST_HARDENED`, which encodes pointers in the same way.
#![allow(unsafe_code, reason = "reads and writes free objects")]

use super::state::NO_OBJECT;

/// A link that did not decode to an object of its slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CorruptLink {
    /// Address of the link.
    pub(crate) at: usize,
}

/// Returns the key that encodes a link at address `at`, by exclusive or.
#[inline]
pub(crate) fn key(secret: u64, at: usize) -> u64 {
    secret ^ (at as u64).swap_bytes()
}

/// Writes the link at address `at`.
///
/// # Safety
/// `at` is the link place of a free object that the caller owns: 8 writable bytes, 8-byte aligned.
#[inline]
pub(crate) unsafe fn write_link(at: usize, secret: u64, next: u16) {
    // SAFETY: by the contract, the place is writable and aligned, and the caller owns it.
    unsafe { (at as *mut u64).write(u64::from(next) ^ key(secret, at)) };
}

/// Reads the link at address `at`. Returns an index below `limit`, or [`NO_OBJECT`].
///
/// # Safety
/// `at` is the link place of a free object that the caller owns.
#[inline]
pub(crate) unsafe fn read_link(at: usize, secret: u64, limit: u16) -> Result<u16, CorruptLink> {
    // SAFETY: by the contract, the place is readable and aligned, and the caller owns it.
    let plain = unsafe { (at as *const u64).read() } ^ key(secret, at);
    if plain < u64::from(limit) || plain == u64::from(NO_OBJECT) { Ok(plain as u16) } else { Err(CorruptLink { at }) }
}

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
    use super::*;

    #[test]
    fn links_round_trip_and_corruption_is_seen() {
        let mut word = 0u64;
        let at = &raw mut word as usize;
        let secret = 0x1234_5678_9abc_def0;
        for next in [0, 1, 511, NO_OBJECT] {
            // SAFETY: `at` is the address of a local, aligned u64.
            unsafe {
                write_link(at, secret, next);
                assert_eq!(read_link(at, secret, 512), Ok(next));
            }
        }
        // SAFETY: as above.
        unsafe {
            write_link(at, secret, 512);
            assert_eq!(read_link(at, secret, 512), Err(CorruptLink { at }), "an index beyond the slab");
            for bit in 0..64 {
                write_link(at, secret, 3);
                *(at as *mut u64) ^= 1 << bit;
                let read = read_link(at, secret, 4);
                assert!(bit < 2 || read.is_err(), "bit {bit} flipped unseen");
            }
        }
    }
}
