//! Workloads of two threads that each hold a live set of some MiB and replace random blocks of it.
//!
//! A freed block lies anywhere in the live set. In sets larger than the CPU's caches, each free
//! finds block and metadata in slow memory. The number of blocks is the size of the set over the
//! mean size of a block, so a set has about as many bytes as its name says.

use core::mem::replace;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::Scale;
use crate::block::Block;
use crate::random::Rng;
use crate::single::free_all;
use crate::threads::together;

/// A distribution of sizes.
struct Sizes {
    mean: usize,
    draw: fn(&mut Rng) -> usize,
}

/// 8 to 1000 bytes, each as likely as the others.
const UNIFORM: Sizes = Sizes { mean: 504, draw: |rng| 8 + rng.below(993) };
/// 8 to 32768 bytes; half of the blocks have at most 15.
const SKEWED: Sizes = Sizes { mean: 66, draw: |rng| rng.inverse_square(8, 32_768) };

/// Two threads with `mib` MiB each of 8 to 1000 bytes.
pub(crate) fn uniform(mib: usize, scale: Scale) -> u64 {
    together(2, |me| replaced(me, mib, &UNIFORM, scale))
}

/// Two threads with `mib` MiB each of 8 to 32768 bytes.
pub(crate) fn skewed(mib: usize, scale: Scale) -> u64 {
    together(2, |me| replaced(me, mib, &SKEWED, scale))
}

/// As [`uniform`], with two neighbours that write to memory until the work is done.
pub(crate) fn busy(mib: usize, scale: Scale) -> u64 {
    let done = &AtomicBool::new(false);
    thread::scope(|scope| {
        for me in 0..2 {
            scope.spawn(move || write_until(done, me));
        }
        let sum = uniform(mib, scale);
        done.store(true, Ordering::Relaxed);
        sum
    })
}

/// Allocates blocks of `mib` MiB, replaces a random one at each step, and frees all.
fn replaced(me: u64, mib: usize, sizes: &Sizes, scale: Scale) -> u64 {
    let count = scale.live((mib << 20) / sizes.mean);
    // A step costs more where every block is out of the caches.
    let steps = scale.steps(if mib < 64 { 3_000_000 } else { 2_000_000 });
    let mut rng = Rng::new(200 + me);
    let mut blocks: Vec<Block> = (0..count as u64).map(|tag| Block::new((sizes.draw)(&mut rng), tag)).collect();
    let mut sum = 0u64;
    for step in 0..steps {
        let new = Block::new((sizes.draw)(&mut rng), step as u64);
        sum = sum.wrapping_add(replace(&mut blocks[rng.below(count)], new).free());
    }
    free_all(blocks, sum)
}

/// Writes a word to random cache lines of 16 MiB until the workers are done. The memory comes from
/// the system, because its speed must not depend on the malloc under test.
fn write_until(done: &AtomicBool, me: u64) {
    const BYTES: usize = 16 << 20;
    const LINE: usize = 64;
    let (access, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the system chooses the address, so the new mapping replaces no other.
    let start = unsafe { libc::mmap(null_mut(), BYTES, access, private, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED, "no memory for a neighbour");
    let mut rng = Rng::new(210 + me);
    while !done.load(Ordering::Relaxed) {
        for _ in 0..1000 {
            let at = rng.below(BYTES / LINE) * LINE;
            // SAFETY: `at` is below BYTES, so the line lies in the mapping, which only this thread
            // knows. The start of a line is aligned to 8 bytes.
            unsafe { start.byte_add(at).cast::<u64>().write_volatile(at as u64) };
        }
    }
    // SAFETY: the mapping made above, in its full length; no reference to it exists.
    unsafe { libc::munmap(start, BYTES) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_sizes_are_those_that_are_drawn() {
        for (sizes, most) in [(&UNIFORM, 1000), (&SKEWED, 32_768)] {
            let mut rng = Rng::new(1);
            let drawn: Vec<usize> = (0..2_000_000).map(|_| (sizes.draw)(&mut rng)).collect();
            assert!(drawn.iter().all(|size| (8..=most).contains(size)));
            let mean = drawn.iter().sum::<usize>() as f64 / drawn.len() as f64;
            // The standard deviation of the skewed mean is 0.5 %.
            assert!((mean / sizes.mean as f64 - 1.0).abs() < 0.03, "{mean} for {}", sizes.mean);
        }
    }

    #[test]
    fn neighbours_change_no_checksum() {
        assert_eq!(busy(8, Scale(0.01)), uniform(8, Scale(0.01)));
    }
}
