//! Allocates and frees as many times as the argument says: for counting instructions, see
//! `ci/callgrind.sh`.

use core::hint::black_box;

fn main() {
    let pairs: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1000);
    for _ in 0..pairs {
        let object = ashlar::kmalloc(black_box(64));
        // SAFETY: allocated just above, and not used again.
        unsafe { ashlar::kfree(object) };
    }
}
