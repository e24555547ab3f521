//! Whole-program workloads: fixed work on whatever malloc the process was started with.
//!
//! The program `ashlar-workload` runs one of them; `ashlar-lab bench programs` starts it, each time
//! with a library preloaded. It is linked with nothing but the C library, so that no allocator but
//! the one under test has a constructor in it. The patterns are those of well-known benchmarks,
//! written anew from what they are known to do: see the table [`WORKLOADS`]. The workloads of the
//! table [`LIVE`] are for large live sets.
//!
//! Rust's own collections use the same malloc (the standard library's system allocator calls it),
//! as a program's would. Each workload gives a checksum that must be the same on every allocator.
//!
//! This library is not a stable interface: the lab reads the table here and makes its inputs with
//! the same random numbers.

mod block;
mod live;
mod opaque;
mod random;
mod single;
mod threads;

pub use opaque::hide;
pub use random::Rng;

/// How much of the usual work is done.
#[derive(Clone, Copy, Debug)]
pub struct Scale(f64);

impl Scale {
    /// `scale` of the usual work.
    pub fn new(scale: f64) -> Self {
        Self(scale)
    }

    /// Steps of a loop that are `usual` at scale 1; at least one.
    fn steps(self, usual: usize) -> usize {
        ((usual as f64 * self.0) as usize).max(1)
    }

    /// Objects that live at a time: fewer at small scales, never more.
    fn live(self, usual: usize) -> usize {
        ((usual as f64 * self.0.min(1.0)) as usize).max(16)
    }

    /// Times that work with a fixed live set is done.
    fn repeats(self) -> usize {
        (self.0 as usize).max(1)
    }
}

/// A workload: its name, the most threads that allocate at a time, what it is, and the function.
#[derive(Debug)]
pub struct Workload {
    /// On the command line and in the JSON.
    pub name: &'static str,
    /// The most threads that allocate at a time.
    pub threads: usize,
    /// What it does.
    pub what: &'static str,
    run: fn(Scale) -> u64,
}

/// The synthetic workloads. Names that begin with `handover` are the ones of producers and
/// consumers.
#[rustfmt::skip]
pub static WORKLOADS: [Workload; 20] = [
    Workload { name: "numbers", threads: 1, what: "short-lived blocks of 8 to 64 bytes (as cfrac)", run: single::numbers },
    Workload { name: "sets", threads: 1, what: "lists of small blocks, a long-lived table (as espresso)", run: single::sets },
    Workload { name: "random", threads: 1, what: "65536 places freed and filled at random (as alloc-test)", run: single::random },
    Workload { name: "trees", threads: 1, what: "binary trees built and dropped", run: single::trees },
    Workload { name: "store", threads: 1, what: "key-value store with a limit, least recently used go (as redis)", run: single::store },
    Workload { name: "words", threads: 1, what: "text split, counted, joined, sorted", run: single::words },
    Workload { name: "phases", threads: 1, what: "grow, free nine of ten, go on with other sizes", run: single::phases },
    Workload { name: "large", threads: 1, what: "blocks of 256 KiB to 8 MiB (as malloc-large)", run: single::large },
    Workload { name: "vectors", threads: 1, what: "realloc by doubling, up to 8 MiB", run: single::vectors },
    Workload { name: "zeroed", threads: 1, what: "calloc of 4 to 64 KiB", run: single::zeroed },
    Workload { name: "aligned", threads: 1, what: "posix_memalign by 16 to 4096", run: single::aligned },
    Workload { name: "server2", threads: 2, what: "blocks outlive the threads that made them (as larson)", run: |scale| threads::server(2, scale) },
    Workload { name: "server4", threads: 4, what: "the same with four threads", run: |scale| threads::server(4, scale) },
    Workload { name: "handover", threads: 2, what: "one thread allocates 16 to 1024 bytes, another frees", run: threads::handover },
    Workload { name: "handover-small", threads: 4, what: "two threads allocate 64 bytes, two free (as xmalloc-test)", run: threads::handover_small },
    Workload { name: "crossing", threads: 2, what: "16 to 16000 bytes, a tenth freed by the other thread (as rptest)", run: threads::crossing },
    Workload { name: "churn", threads: 4, what: "threads come and go, a shared table (as mstress)", run: threads::churn },
    Workload { name: "piles", threads: 2, what: "freed last first, first first, or by the other thread (as sh8bench)", run: threads::piles },
    Workload { name: "sharing", threads: 2, what: "blocks written by two threads, own ones (as cache-thrash)", run: threads::sharing_active },
    Workload { name: "sharing-given", threads: 2, what: "the same, after neighbours were handed out (as cache-scratch)", run: threads::sharing_passive },
];

/// The workloads of live sets: two threads replace random blocks of their own set. The number in a
/// name is the size of one set in MiB.
#[rustfmt::skip]
pub static LIVE: [Workload; 8] = [
    Workload { name: "live-1", threads: 2, what: "each thread replaces random blocks of 8 to 1000 bytes, 1 MiB live", run: |scale| live::uniform(1, scale) },
    Workload { name: "live-8", threads: 2, what: "the same with 8 MiB live in each thread", run: |scale| live::uniform(8, scale) },
    Workload { name: "live-64", threads: 2, what: "the same with 64 MiB live in each thread", run: |scale| live::uniform(64, scale) },
    Workload { name: "live-1-skewed", threads: 2, what: "each thread replaces blocks of 8 to 32768 bytes, most small, 1 MiB live", run: |scale| live::skewed(1, scale) },
    Workload { name: "live-8-skewed", threads: 2, what: "the same sizes with 8 MiB live in each thread", run: |scale| live::skewed(8, scale) },
    Workload { name: "live-64-skewed", threads: 2, what: "the same sizes with 64 MiB live in each thread", run: |scale| live::skewed(64, scale) },
    Workload { name: "live-8-busy", threads: 2, what: "live-8 while two other threads write to 16 MiB each", run: |scale| live::busy(8, scale) },
    Workload { name: "live-64-busy", threads: 2, what: "live-64 while two other threads write to 16 MiB each", run: |scale| live::busy(64, scale) },
];

/// The cost of a call alone. No program does this, so it does not count as a synthetic workload.
#[rustfmt::skip]
pub static PAIRS: Workload =
    Workload { name: "pairs", threads: 1, what: "malloc and free of 8, 64 and 512 bytes, and nothing else", run: single::pairs };

impl Workload {
    /// Does the work; the checksum.
    pub fn run(&self, scale: Scale) -> u64 {
        (self.run)(scale)
    }

    /// All workloads but the pairs, in the order of the tables.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        WORKLOADS.iter().chain(&LIVE)
    }

    /// Finds a workload, the pairs among them.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::all().chain([&PAIRS]).find(|workload| workload.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_gives_the_same_checksum_twice_and_its_own_name() {
        for (at, workload) in Workload::all().enumerate() {
            assert!(Workload::all().take(at).all(|other| other.name != workload.name), "{}", workload.name);
            let sum = (workload.run)(Scale(0.002));
            assert_eq!((workload.run)(Scale(0.002)), sum, "{}", workload.name);
            assert_ne!((workload.run)(Scale(0.02)), sum, "{}: the scale changes nothing", workload.name);
        }
    }
}
