//! The trace: what is allocated and freed, in which order, the same for every system.
//!
//! It is made from a seed while it runs, so that it takes no memory that would be counted as
//! the allocator's; each operation goes into a hash, which all systems must agree on.
//!
//! `mixed` is a kernel at work: named caches and kmalloc sizes with weights. The heap grows, is
//! churned at that size, is freed but for a quarter that lies scattered, is shrunk, and ends.
//! `caches` is the machine of the mails on SLOB: many caches of similar sizes with few objects
//! each, as after boot, then messages that come and go, as under hackbench.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::systems::heap::Kind;

/// Kinds of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Profile {
    /// A kernel at work: grow, churn, free three quarters, shrink
    Mixed,
    /// Many caches of similar sizes, then messages that come and go
    Caches,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// An object of this kind is allocated, and remembered at this place.
    Alloc { kind: usize, place: usize },
    /// The object at this place is freed.
    Free { kind: usize, place: usize },
    /// The allocator is asked to give back what it does not need.
    Shrink,
    /// Nothing happens for a while.
    Idle,
    /// A phase has ended.
    End(&'static str),
}

/// Objects of `mixed`: name of the cache, bytes, how often of 100 or so. The sizes are those that
/// common objects of a kernel have.
const MIXED: [(Option<&str>, usize, usize); 24] = [
    (Some("dentry"), 192, 14),
    (Some("inode_cache"), 608, 5),
    (Some("filp"), 256, 7),
    (Some("vm_area_struct"), 200, 8),
    (Some("anon_vma"), 104, 7),
    (Some("buffer_head"), 104, 6),
    (Some("skbuff_head_cache"), 256, 6),
    (Some("radix_tree_node"), 576, 4),
    (Some("sock_inode_cache"), 832, 2),
    (Some("signal_cache"), 1120, 1),
    (Some("mm_struct"), 1032, 1),
    (Some("cred"), 176, 3),
    (None, 8, 4),
    (None, 16, 5),
    (None, 24, 4),
    (None, 40, 5),
    (None, 64, 6),
    (None, 90, 3),
    (None, 128, 3),
    (None, 448, 3),
    (None, 1000, 1),
    (None, 2048, 1),
    (None, 3500, 1),
    (None, 8192, 1),
];
/// Live bytes of the full `mixed` trace.
const MIXED_BYTES: usize = 24 << 20;
/// Caches of `caches`.
const CACHES: usize = 160;
/// Bytes of the objects of one of those, at most; and live bytes of kmalloc beside them in the full
/// trace.
const CACHE_BYTES: usize = 48 << 10;
const KMALLOC_BYTES: usize = 3 << 20;
/// Messages that are on their way at one time, and in all, in the full trace.
const MESSAGES_AT_A_TIME: usize = 4000;
const MESSAGES: usize = 40_000;

/// A generator for orders (xorshift64*): the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)) * n as u128) >> 64) as usize
    }
}

/// A trace, before it runs.
#[derive(Debug)]
pub(crate) struct Trace {
    profile: Profile,
    scale: f64,
    seed: u64,
    pub(crate) kinds: Vec<Kind>,
}

/// Lists that a trace needs while it runs. They are made and written before, so that their memory
/// does not count as memory of the trace.
#[derive(Debug)]
pub(crate) struct Lists {
    /// Kind and place of each live object.
    live: Vec<(usize, usize)>,
    /// Places that are free again.
    free: Vec<usize>,
}

/// Most objects of a trace.
pub(crate) const MOST: usize = 1 << 19;

impl Lists {
    /// For so many objects.
    pub(crate) fn new(most: usize) -> Self {
        let mut lists = Self { live: vec![(1, 1); most], free: vec![1; most] };
        lists.live.clear();
        lists.free.clear();
        lists
    }
}

/// A trace that runs.
struct Running<'a> {
    kinds: &'a [Kind],
    random: Random,
    live: &'a mut Vec<(usize, usize)>,
    free: &'a mut Vec<usize>,
    places: usize,
    bytes: usize,
    hash: u64,
    sink: &'a mut dyn FnMut(Op) -> Result<(), String>,
}

impl Running<'_> {
    fn tell(&mut self, op: Op) -> Result<(), String> {
        let word = match op {
            Op::Alloc { kind, place } => (1, kind, place),
            Op::Free { kind, place } => (2, kind, place),
            Op::Shrink => (3, 0, 0),
            Op::Idle => (4, 0, 0),
            Op::End(phase) => (5, phase.len(), 0),
        };
        // FNV-1a, a word at a time.
        for part in [word.0, word.1, word.2] {
            self.hash = (self.hash ^ part as u64).wrapping_mul(0x0100_0000_01B3);
        }
        (self.sink)(op)
    }

    fn alloc(&mut self, kind: usize) -> Result<(), String> {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places += 1;
            self.places - 1
        });
        self.live.push((kind, place));
        self.bytes += self.kinds[kind].size;
        self.tell(Op::Alloc { kind, place })
    }

    /// Frees the live object at `at` of the list.
    fn free(&mut self, at: usize) -> Result<(), String> {
        let (kind, place) = self.live.swap_remove(at);
        self.free.push(place);
        self.bytes -= self.kinds[kind].size;
        self.tell(Op::Free { kind, place })
    }

    fn free_some(&mut self, until_bytes: usize) -> Result<(), String> {
        while self.bytes > until_bytes && !self.live.is_empty() {
            let at = self.random.below(self.live.len());
            self.free(at)?;
        }
        Ok(())
    }

    /// The end of every trace: what is left is freed.
    fn end(&mut self) -> Result<(), String> {
        self.tell(Op::Shrink)?;
        self.tell(Op::End("shrink"))?;
        self.tell(Op::Idle)?;
        self.tell(Op::End("idle"))?;
        self.free_some(0)?;
        self.tell(Op::Shrink)?;
        self.tell(Op::End("empty"))
    }
}

impl Trace {
    pub(crate) fn new(profile: Profile, scale: f64, seed: u64) -> Self {
        let mut random = Random(seed | 1);
        let kinds = match profile {
            Profile::Mixed => {
                let kind = |&(name, size, _): &(Option<&str>, usize, usize)| {
                    name.map_or_else(|| Kind::kmalloc(size), |name| Kind::cache(name, size, false))
                };
                MIXED.iter().map(kind).collect()
            }
            Profile::Caches => {
                // Most objects of a kernel are of some 40 to 260 bytes.
                let cache = |at: usize| {
                    let most = [72, 136, 264, 264, 520, 1032][random.below(6)];
                    Kind::cache(format!("boot-{at}"), 24 + 8 * random.below(most / 8), false)
                };
                let mut kinds: Vec<Kind> = (0..CACHES).map(cache).collect();
                kinds.extend([8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048].map(Kind::kmalloc));
                // A message is a head and a payload: see hackbench.
                kinds.push(Kind::head());
                kinds.push(Kind::kmalloc(448));
                kinds
            }
        };
        Self { profile, scale, seed, kinds }
    }

    /// Phases of a profile, in order.
    pub(crate) fn phases(profile: Profile) -> &'static [&'static str] {
        match profile {
            Profile::Mixed => &["grow", "churn", "partial", "shrink", "idle", "empty"],
            Profile::Caches => &["boot", "hackbench", "shrink", "idle", "empty"],
        }
    }

    /// Runs the trace; its hash.
    pub(crate) fn run(&self, lists: &mut Lists, sink: &mut dyn FnMut(Op) -> Result<(), String>) -> Result<u64, String> {
        let mut running = self.start(lists, sink);
        match self.profile {
            Profile::Mixed => self.mixed(&mut running)?,
            Profile::Caches => self.caches(&mut running)?,
        }
        running.end()?;
        Ok(running.hash)
    }

    fn start<'a>(&'a self, lists: &'a mut Lists, sink: &'a mut dyn FnMut(Op) -> Result<(), String>) -> Running<'a> {
        Running {
            kinds: &self.kinds,
            random: Random(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            live: &mut lists.live,
            free: &mut lists.free,
            places: 0,
            bytes: 0,
            hash: 0xCBF2_9CE4_8422_2325,
            sink,
        }
    }

    /// The heap of a machine that has been up for a while: the objects after boot, of which a third
    /// was freed since, here and there.
    pub(crate) fn boot(&self, lists: &mut Lists, sink: &mut dyn FnMut(Op) -> Result<(), String>) -> Result<(), String> {
        let mut running = self.start(lists, sink);
        self.boot_objects(&mut running)?;
        let kept = running.bytes / 3 * 2;
        running.free_some(kept)
    }

    fn scaled(&self, full: usize) -> usize {
        ((full as f64 * self.scale) as usize).max(1)
    }

    fn mixed(&self, running: &mut Running<'_>) -> Result<(), String> {
        let weights: usize = MIXED.iter().map(|(.., weight)| weight).sum();
        let pick = |random: &mut Random| {
            let mut at = random.below(weights);
            MIXED.iter().position(|(.., weight)| {
                let here = at < *weight;
                at = at.wrapping_sub(*weight);
                here
            })
        };
        let target = self.scaled(MIXED_BYTES);
        let grow = |running: &mut Running<'_>| {
            while running.bytes < target {
                let kind = pick(&mut running.random).unwrap_or(0);
                running.alloc(kind)?;
            }
            Ok::<(), String>(())
        };
        grow(running)?;
        running.tell(Op::End("grow"))?;
        for _ in 0..2 * running.live.len() {
            let at = running.random.below(running.live.len());
            running.free(at)?;
            grow(running)?;
        }
        running.tell(Op::End("churn"))?;
        running.free_some(target / 4)?;
        running.tell(Op::End("partial"))
    }

    fn boot_objects(&self, running: &mut Running<'_>) -> Result<(), String> {
        // In turn, as a system boots: objects of all caches lie between each other.
        let mut left: Vec<usize> = self.kinds[..CACHES]
            .iter()
            .map(|kind| self.scaled(running.random.below(CACHE_BYTES)) / kind.size)
            .collect();
        let kmalloc = CACHES..self.kinds.len() - 2;
        let mut bytes = self.scaled(KMALLOC_BYTES);
        while bytes > 0 || left.iter().any(|&left| left > 0) {
            let cache = running.random.below(CACHES);
            if left[cache] > 0 {
                left[cache] -= 1;
                running.alloc(cache)?;
            }
            if bytes > 0 {
                // Small ones more often.
                let one = running.random.below(kmalloc.len());
                let kind = kmalloc.start + running.random.below(one + 1);
                bytes = bytes.saturating_sub(self.kinds[kind].size);
                running.alloc(kind)?;
            }
        }
        Ok(())
    }

    fn caches(&self, running: &mut Running<'_>) -> Result<(), String> {
        self.boot_objects(running)?;
        running.tell(Op::End("boot"))?;
        let boot = running.live.len();
        let [head, payload] = [self.kinds.len() - 2, self.kinds.len() - 1];
        for message in 0..self.scaled(MESSAGES) {
            running.alloc(head)?;
            running.alloc(payload)?;
            if message >= self.scaled(MESSAGES_AT_A_TIME) {
                // Some message is received: its head and payload lie side by side in the list.
                let pairs = (running.live.len() - boot) / 2;
                let at = boot + 2 * running.random.below(pairs);
                let last = running.live.len();
                // The last pair takes their places, in its order.
                running.live.swap(at, last - 2);
                running.live.swap(at + 1, last - 1);
                running.free(last - 1)?;
                running.free(last - 2)?;
            }
        }
        while running.live.len() > boot {
            running.free(running.live.len() - 1)?;
        }
        running.tell(Op::End("hackbench"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_the_same_each_time_and_free_what_they_allocated() {
        for profile in [Profile::Mixed, Profile::Caches] {
            let run = |seed| {
                let trace = Trace::new(profile, 0.01, seed);
                let mut live = std::collections::BTreeMap::new();
                let mut phases = Vec::new();
                let hash = trace
                    .run(&mut Lists::new(1 << 12), &mut |op| {
                        match op {
                            Op::Alloc { kind, place } => assert_eq!(live.insert(place, kind), None),
                            Op::Free { kind, place } => assert_eq!(live.remove(&place), Some(kind)),
                            Op::End(phase) => phases.push((phase, live.len())),
                            Op::Shrink | Op::Idle => {}
                        }
                        Ok(())
                    })
                    .unwrap();
                (hash, phases)
            };
            let (hash, phases) = run(1);
            assert_eq!(run(1), (hash, phases.clone()));
            assert_ne!(run(2).0, hash);
            let names: Vec<&str> = phases.iter().map(|(phase, _)| *phase).collect();
            assert_eq!(names, Trace::phases(profile));
            assert!(phases[0].1 > 100 && phases.last().unwrap().1 == 0, "{phases:?}");
        }
    }

    #[test]
    fn an_error_ends_the_trace() {
        let mut left = 5;
        let outcome = Trace::new(Profile::Mixed, 0.01, 1).run(&mut Lists::new(1 << 12), &mut |_| {
            left -= 1;
            if left == 0 { Err("memory ended".to_owned()) } else { Ok(()) }
        });
        assert_eq!(outcome, Err("memory ended".to_owned()));
    }
}
