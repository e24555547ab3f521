//! The words of the command line, each `name=value`.

use alloc::vec::Vec;

/// What the lab asks for.
pub struct Options {
    /// Objects of a pass, for each CPU.
    pub objects: usize,
    /// Passes that are printed.
    pub passes: usize,
    /// Bytes of the objects.
    pub sizes: Vec<usize>,
    /// Seconds that the storm lasts on each system.
    pub seconds: u32,
    /// What random numbers begin with.
    pub seed: u64,
    /// Nanoseconds between two interrupts of a timer.
    pub period: u32,
    /// Ticks after which a test has no further pass.
    pub limit: u64,
}

/// Returns the value of the word `name`, if it is there and a number.
pub fn number<T: core::str::FromStr>(line: &str, name: &str) -> Option<T> {
    let value = |word: &str| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
    line.split(' ').find_map(value)
}

impl Options {
    /// Reads the line. What is missing or no number has its default.
    pub fn read(line: &str) -> Options {
        let list = line.split(' ').find_map(|word| word.strip_prefix("sizes="));
        let mut sizes: Vec<usize> = list.unwrap_or("").split(',').filter_map(|size| size.parse().ok()).collect();
        // A pattern needs a word.
        sizes.retain(|size| (8..=1 << 16).contains(size));
        if sizes.is_empty() {
            sizes = [16, 64, 256, 1024, 4096].into();
        }
        Options {
            objects: number(line, "objects").unwrap_or(1000).max(1),
            passes: number(line, "passes").unwrap_or(3).max(1),
            sizes,
            seconds: number(line, "seconds").unwrap_or(1),
            seed: number(line, "seed").unwrap_or(1),
            period: number(line, "period").unwrap_or(50_000),
            limit: number(line, "limit").unwrap_or(1 << 30),
        }
    }
}
