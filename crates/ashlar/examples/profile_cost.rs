//! What calls take without a heap profile, while one runs, and after it: nanoseconds of a pair of
//! an allocation and its free, the best of several rounds.
//!
//! ```text
//! cargo run --release -p ashlar-alloc --example profile_cost [RATE]
//! ```

use core::hint::black_box;
use core::ptr::NonNull;
use std::time::Instant;

use ashlar::{CacheArgs, KmemCache, kfree, kfree_sized, kmalloc, malloc};

/// Pairs in a round, and objects that are live at a time.
const PAIRS: usize = 400_000;
const LIVE: usize = 32;
const ROUNDS: usize = 7;

/// Returns the nanoseconds of a pair.
fn time(alloc: impl Fn() -> *mut u8, free: impl Fn(*mut u8)) -> f64 {
    let round = || {
        let mut live = [core::ptr::null_mut(); LIVE];
        let start = Instant::now();
        for _ in 0..PAIRS / LIVE {
            live.fill_with(|| black_box(alloc()));
            live.iter().for_each(|&object| free(black_box(object)));
        }
        start.elapsed().as_nanos() as f64 / PAIRS as f64
    };
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

/// Prints a line: the times of all pairs.
fn line(when: &str, cache: &KmemCache) {
    // SAFETY: each object was allocated by the function before, and is freed once.
    let pairs = unsafe {
        [
            time(|| malloc::malloc(100), |object| malloc::free(object)),
            time(|| kmalloc(100), |object| kfree(object)),
            time(|| kmalloc(100), |object| kfree_sized(object, 100)),
            time(
                || cache.alloc().map_or(core::ptr::null_mut(), NonNull::as_ptr),
                |object| NonNull::new(object).into_iter().for_each(|object| cache.free(object)),
            ),
        ]
    };
    println!("{when:>18} {:>9.1} {:>9.1} {:>11.1} {:>9.1}", pairs[0], pairs[1], pairs[2], pairs[3]);
}

fn main() {
    let rate = std::env::args().nth(1).map_or(Ok(512 << 10), |text| text.parse());
    let rate: usize = rate.expect("RATE: expected bytes between samples");
    let cache = KmemCache::create("profiled", 100, &CacheArgs::DEFAULT).expect("a cache");
    println!("ns for a pair of 100 bytes, and a sample each {rate} bytes");
    println!("{:>18} {:>9} {:>9} {:>11} {:>9}", "", "malloc", "kmalloc", "kfree_sized", "cache");
    line("without a profile", &cache);
    ashlar::profile::start(rate).expect("a profile");
    line("while one runs", &cache);
    ashlar::profile::stop();
    line("after it", &cache);
}
