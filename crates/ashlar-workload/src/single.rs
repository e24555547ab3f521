//! Workloads of one thread: what most programs are.

use core::mem::replace;
use std::collections::HashMap;

use crate::Scale;
use crate::block::{self, Block};
use crate::random::Rng;

/// Arithmetic on numbers of many digits: each step makes two temporaries and a result of 8 to 64
/// bytes, and drops the temporaries at once.
pub(crate) fn numbers(scale: Scale) -> u64 {
    let mut rng = Rng::new(1);
    let mut live: Vec<Block> = (0..64).map(|tag| Block::new(8 + 8 * rng.below(7), tag)).collect();
    let mut sum = 0u64;
    for _ in 0..scale.steps(7_000_000) {
        let (a, b) = (rng.below(64), rng.below(64));
        let product = Block::new((live[a].size() + 8).min(64), live[a].tag() ^ live[b].tag());
        let rest = Block::new(live[b].size(), live[b].tag().wrapping_add(product.tag()));
        let size = 8 + 8 * rng.below(7);
        let result = Block::new(size, product.tag().wrapping_mul(3) ^ rest.tag());
        sum = sum.wrapping_add(rest.free()).wrapping_add(product.free());
        sum = sum.wrapping_add(replace(&mut live[rng.below(64)], result).free());
    }
    free_all(live, sum)
}

/// Pairs of malloc and free, of three sizes.
pub(crate) fn pairs(scale: Scale) -> u64 {
    const SIZES: [usize; 3] = [8, 64, 512];
    let steps = scale.steps(20_000_000);
    for size in SIZES {
        for _ in 0..steps {
            block::pair(size);
        }
    }
    (SIZES.len() * steps) as u64
}

/// A program that refines sets: lists of 4 to 40 blocks of 16 to 1024 bytes are made, some members
/// replace members of a long-lived list, the rest goes in the order made, and a table grows now and
/// then.
pub(crate) fn sets(scale: Scale) -> u64 {
    let mut rng = Rng::new(2);
    let mut cover: Vec<Block> = (0..4000).map(|tag| Block::new(rng.skewed(16, 1023), tag)).collect();
    let mut table = Block::new(64, 1);
    let mut list: Vec<Block> = Vec::new();
    let mut sum = 0u64;
    for step in 0..scale.steps(350_000) {
        for tag in 0..4 + rng.below(37) {
            list.push(Block::new(rng.skewed(16, 1023), (step * 64 + tag) as u64));
        }
        for block in list.drain(..) {
            let unlucky = if rng.below(4) == 0 { replace(&mut cover[rng.below(4000)], block) } else { block };
            sum = sum.wrapping_add(unlucky.free());
        }
        if step % 16 == 0 {
            let size = if table.size() > 32_000 { 64 } else { table.size() * 3 / 2 };
            table.resize(size, step as u64);
        }
    }
    list = cover;
    free_all(list, sum.wrapping_add(table.free()))
}

/// A large live set of blocks up to 1 KiB; each step frees or fills a random place of it.
pub(crate) fn random(scale: Scale) -> u64 {
    let mut rng = Rng::new(3);
    let mut slots: Vec<Option<Block>> = (0..scale.live(1 << 16)).map(|_| None).collect();
    let mut sum = 0u64;
    for step in 0..scale.steps(4_000_000) {
        let at = rng.below(slots.len());
        slots[at] = match slots[at].take() {
            Some(block) => {
                sum = sum.wrapping_add(block.free());
                None
            }
            None => Some(Block::new(rng.skewed(8, 1023), step as u64)),
        };
    }
    free_all(slots.into_iter().flatten(), sum)
}

struct Node {
    left: Option<Box<Node>>,
    right: Option<Box<Node>>,
    value: u64,
}

impl Node {
    fn tree(depth: usize, value: u64) -> Box<Self> {
        let below = |side| (depth > 0).then(|| Self::tree(depth - 1, value * 2 + side));
        Box::new(Self { left: below(0), right: below(1), value })
    }

    fn sum(&self) -> u64 {
        let of = |side: &Option<Box<Self>>| side.as_ref().map_or(0, |node| node.sum());
        self.value.wrapping_add(of(&self.left)).wrapping_add(of(&self.right))
    }
}

/// Binary trees of up to 2^17 nodes, made and dropped while one lives on.
pub(crate) fn trees(scale: Scale) -> u64 {
    let old = Node::tree(16, 1);
    let mut sum = 0u64;
    for step in 0..scale.steps(140) {
        for depth in (6..=14).step_by(4) {
            for number in 0..1 << (14 - depth) {
                sum = sum.wrapping_add(Node::tree(depth, (step + number) as u64).sum());
            }
        }
    }
    sum.wrapping_add(old.sum())
}

/// A hash that is the same in every run.
#[derive(Default)]
struct Fnv(u64);

impl core::hash::Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }
}

struct Entry {
    key: Box<str>,
    value: Block,
    used: usize,
}

/// A store of strings with a limit: new values push out the least recently used of five, values are
/// replaced by longer and shorter ones, and their usual length changes half way.
pub(crate) fn store(scale: Scale) -> u64 {
    const SAMPLED: usize = 5;
    let mut rng = Rng::new(4);
    let limit = scale.live(40_000);
    let mut index: HashMap<Box<str>, usize, core::hash::BuildHasherDefault<Fnv>> = HashMap::default();
    let mut entries: Vec<Entry> = Vec::new();
    let mut sum = 0u64;
    let steps = scale.steps(400_000);
    for step in 0..steps {
        let longest = if step < steps / 2 { 255 } else { 511 };
        let key = format!("user:{:08}:{}", rng.below(limit * 4), ["name", "session", "basket"][rng.below(3)]);
        let size = rng.skewed(16, longest);
        if let Some(&at) = index.get(key.as_str()) {
            let entry = &mut entries[at];
            entry.used = step;
            if rng.below(3) == 0 {
                sum = sum.wrapping_add(replace(&mut entry.value, Block::new(size, step as u64)).free());
            } else {
                sum = sum.wrapping_add(entry.value.tag());
            }
            continue;
        }
        let new = Entry { key: key.into_boxed_str(), value: Block::new(size, step as u64), used: step };
        let at = if entries.len() < limit {
            index.insert(new.key.clone(), entries.len());
            entries.push(new);
            continue;
        } else {
            (0..SAMPLED).map(|_| rng.below(limit)).min_by_key(|&at| entries[at].used).unwrap_or(0)
        };
        index.insert(new.key.clone(), at);
        let old = replace(&mut entries[at], new);
        index.remove(&old.key);
        sum = sum.wrapping_add(old.value.free());
    }
    free_all(entries.into_iter().map(|entry| entry.value), sum)
}

/// Text: lines are split into words, words are counted, joined and sorted.
pub(crate) fn words(scale: Scale) -> u64 {
    let mut rng = Rng::new(5);
    let mut sum = 0u64;
    for _ in 0..scale.steps(220) {
        let mut text = String::new();
        for _ in 0..4000 {
            for _ in 0..1 + rng.below(9) {
                text.push(char::from(b'a' + rng.below(26) as u8));
            }
            text.push(if rng.below(10) == 0 { '\n' } else { ' ' });
        }
        let lines: Vec<Vec<String>> = text.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect();
        let mut counts: std::collections::BTreeMap<String, usize> = std::collections::BTreeMap::new();
        let mut joined: Vec<String> = Vec::new();
        for line in &lines {
            for word in line {
                *counts.entry(word.to_uppercase()).or_default() += 1;
            }
            joined.push(line.iter().rev().cloned().collect::<Vec<_>>().join("-"));
        }
        joined.sort_unstable();
        for (place, line) in joined.iter().enumerate() {
            sum = line.bytes().fold(sum.wrapping_add(place as u64), |sum, b| sum.wrapping_mul(31) ^ u64::from(b));
        }
        sum = counts.values().fold(sum, |sum, &count| sum.wrapping_mul(31) ^ count as u64);
    }
    sum
}

/// Grows to some 30 MiB of one range of sizes, frees nine of ten at random, and goes on with
/// another range.
pub(crate) fn phases(scale: Scale) -> u64 {
    const RANGES: [(usize, usize, usize); 6] = [
        (16, 127, 450_000),
        (160, 320, 130_000),
        (24, 64, 650_000),
        (1000, 4000, 12_000),
        (64, 512, 120_000),
        (5000, 40_000, 1500),
    ];
    let mut rng = Rng::new(6);
    let mut kept: Vec<Block> = Vec::new();
    let mut sum = 0u64;
    for (low, high, count) in RANGES {
        let mut blocks: Vec<Block> = Vec::new();
        for tag in 0..scale.live(count) * scale.repeats() {
            blocks.push(Block::new(low + rng.below(high - low + 1), tag as u64));
        }
        // Shuffled, so that what stays lies everywhere.
        for at in (1..blocks.len()).rev() {
            blocks.swap(at, rng.below(at + 1));
        }
        for (at, block) in blocks.into_iter().enumerate() {
            if at % 10 == 0 {
                kept.push(block);
            } else {
                sum = sum.wrapping_add(block.free());
            }
        }
    }
    free_all(kept, sum)
}

/// Sixteen blocks of 256 KiB to 8 MiB live; each page of a new one is written.
pub(crate) fn large(scale: Scale) -> u64 {
    let mut rng = Rng::new(7);
    let mut live: Vec<Option<Block>> = (0..16).map(|_| None).collect();
    let mut sum = 0u64;
    for step in 0..scale.steps(900) {
        let at = rng.below(16);
        let old = live[at].take();
        sum = sum.wrapping_add(old.map_or(0, Block::free));
        live[at] = Some(Block::new(rng.skewed(256 << 10, (8 << 20) - 1), step as u64));
    }
    free_all(live.into_iter().flatten(), sum)
}

/// Eight vectors grow in turn by doubling, from 64 bytes to up to 8 MiB, and start again.
pub(crate) fn vectors(scale: Scale) -> u64 {
    let mut rng = Rng::new(8);
    let mut growing: Vec<(Block, usize)> = (0..8).map(|tag| (Block::new(64, tag), 4096)).collect();
    let mut sum = 0u64;
    for step in 0..scale.steps(200_000) {
        let (block, end) = &mut growing[rng.below(8)];
        if block.size() < *end {
            block.resize(block.size() * 2, step as u64);
        } else {
            sum = sum.wrapping_add(replace(block, Block::new(64, step as u64)).free());
            // Long ones are rare: 512 bytes to 8 MiB.
            *end = 512 << rng.below(15).min(rng.below(15));
        }
    }
    free_all(growing.into_iter().map(|(block, _)| block), sum)
}

/// A window of 200 blocks of 4 to 64 KiB from calloc.
pub(crate) fn zeroed(scale: Scale) -> u64 {
    let mut rng = Rng::new(9);
    let mut live: Vec<Option<Block>> = (0..200).map(|_| None).collect();
    let mut sum = 0u64;
    for step in 0..scale.steps(150_000) {
        let at = rng.below(200);
        let old = live[at].take();
        sum = sum.wrapping_add(old.map_or(0, Block::free));
        live[at] = Some(Block::zeroed(rng.skewed(4096, (64 << 10) - 1), step as u64));
    }
    free_all(live.into_iter().flatten(), sum)
}

/// A window of blocks that start at multiples of 16 to 4096, sizes to 2 KiB.
pub(crate) fn aligned(scale: Scale) -> u64 {
    let mut rng = Rng::new(10);
    let mut live: Vec<Option<Block>> = (0..4000).map(|_| None).collect();
    let mut sum = 0u64;
    for step in 0..scale.steps(1_500_000) {
        let at = rng.below(4000);
        let old = live[at].take();
        sum = sum.wrapping_add(old.map_or(0, Block::free));
        let align = 16 << rng.below(9).min(rng.below(9));
        live[at] = Some(Block::aligned(align, rng.skewed(16, 2047), step as u64));
    }
    free_all(live.into_iter().flatten(), sum)
}

pub(crate) fn free_all(blocks: impl IntoIterator<Item = Block>, sum: u64) -> u64 {
    blocks.into_iter().fold(sum, |sum, block| sum.wrapping_add(block.free()))
}
