//! The process that times the calls of one engine or malloc.
//!
//! For each size there is a heap of objects that are a little smaller, half of them freed: where
//! blocks of all sizes lie side by side, no hole is large enough, and a search goes past all of
//! them; where pages have one size, all pages have holes. Then, again and again, a burst of objects
//! is allocated, and freed in random order. A burst is longer than two sheaves, so that refills and
//! flushes of the default are in it, and its objects fill pages and empty them.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ashlar::{CacheArgs, KmemCache};

use crate::experiments::worst::plan::{Answer, Plan, WorstRecord};
use crate::kit::error::LabError;
use crate::kit::measure::{allowed_cpus, pin, ticks};
use crate::kit::output;
use crate::systems::traits::{Calls, LESS};

/// Objects of a burst.
const BURST: usize = 600;
/// Bursts that are not counted, before those that are.
const WARMING: usize = 2;
const LINE: usize = 64;

/// Where objects of one size come from.
trait Source: Sized {
    /// What its two calls are called.
    const CALLS: [&'static str; 2];

    fn new(size: usize) -> Result<Self, String>;

    fn alloc(&self) -> *mut u8;

    /// # Safety
    /// `object` came from `alloc` of this source, was not null, and was not freed.
    unsafe fn free(&self, object: *mut u8);

    fn some(&self, count: usize) -> Result<Vec<*mut u8>, String> {
        let objects: Vec<_> = (0..count).map(|_| self.alloc()).collect();
        if objects.iter().any(|object| object.is_null()) { Err("memory ended".to_owned()) } else { Ok(objects) }
    }
}

/// kmalloc of ours.
struct Kmalloc(usize);

impl Source for Kmalloc {
    const CALLS: [&'static str; 2] = ["kmalloc", "kfree"];

    fn new(size: usize) -> Result<Self, String> {
        Ok(Self(size))
    }

    #[inline(always)]
    fn alloc(&self) -> *mut u8 {
        ashlar::kmalloc(self.0)
    }

    #[inline(always)]
    unsafe fn free(&self, object: *mut u8) {
        // SAFETY: by the caller's promise.
        unsafe { ashlar::kfree(object) }
    }
}

/// A cache of ours.
struct Cache(KmemCache);

impl Source for Cache {
    const CALLS: [&'static str; 2] = ["kmem_cache_alloc", "kmem_cache_free"];

    fn new(size: usize) -> Result<Self, String> {
        KmemCache::create(&format!("worst-{size}"), size, &CacheArgs::default())
            .map(Self)
            .map_err(|error| format!("cannot create a cache for objects of {size} bytes: {error}"))
    }

    #[inline(always)]
    fn alloc(&self) -> *mut u8 {
        self.0.alloc().map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    #[inline(always)]
    unsafe fn free(&self, object: *mut u8) {
        // SAFETY: by the caller's promise: not null, live, of this cache.
        unsafe { self.0.free(NonNull::new_unchecked(object)) }
    }
}

/// malloc and free of a system.
struct Malloc<C>(usize, PhantomData<C>);

impl<C: Calls> Source for Malloc<C> {
    const CALLS: [&'static str; 2] = ["malloc", "free"];

    fn new(size: usize) -> Result<Self, String> {
        // The size is a run-time value, as in a program.
        Ok(Self(core::hint::black_box(size), PhantomData))
    }

    #[inline(always)]
    fn alloc(&self) -> *mut u8 {
        C::alloc(self.0)
    }

    #[inline(always)]
    unsafe fn free(&self, object: *mut u8) {
        // SAFETY: by the caller's promise; all objects of a source have the same size.
        unsafe { C::free(object, self.0) }
    }
}

/// Makes the caches of this CPU forget the allocator.
struct Sweep(Vec<u8>);

impl Sweep {
    fn new(mib: usize) -> Sweep {
        // Not zero, so that every page is memory of its own.
        Sweep(vec![1; mib << 20])
    }

    fn run(&self) {
        let sum = self.0.iter().step_by(LINE).fold(0u8, |sum, &byte| sum.wrapping_add(byte));
        core::hint::black_box(sum);
    }
}

/// A generator for orders (xorshift64*): the same in every run.
struct Random(u64);

impl Random {
    fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((u128::from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)) * n as u128) >> 64) as usize
    }
}

/// Ticks of each call of bursts of `source` until there are `wanted` of each kind: allocations, and
/// frees.
fn bursts<S: Source>(
    source: &S,
    wanted: usize,
    cold: Option<&Sweep>,
    random: &mut Random,
) -> Result<[Vec<u64>; 2], String> {
    let [mut allocs, mut frees] = [Vec::with_capacity(wanted), Vec::with_capacity(wanted)];
    let mut objects = Vec::with_capacity(BURST);
    let mut warming = WARMING;
    while allocs.len() < wanted {
        let count = BURST.min(wanted - allocs.len());
        // Those that warm up are as long as the longest, and need no cold caches.
        let (count, sweep) = if warming > 0 { (BURST, None) } else { (count, cold) };
        for _ in 0..count {
            if let Some(sweep) = sweep {
                sweep.run();
            }
            let start = ticks();
            let object = source.alloc();
            let took = ticks() - start;
            if object.is_null() {
                return Err("memory ended".to_owned());
            }
            // SAFETY: fresh, of at least one byte. A program writes what it allocates.
            unsafe { object.write_volatile(1) };
            objects.push(object);
            if warming == 0 {
                allocs.push(took);
            }
        }
        while !objects.is_empty() {
            let object = objects.swap_remove(random.below(objects.len()));
            if let Some(sweep) = sweep {
                sweep.run();
            }
            let start = ticks();
            // SAFETY: allocated above, freed once.
            unsafe { source.free(object) };
            let took = ticks() - start;
            if warming == 0 {
                frees.push(took);
            }
        }
        warming = warming.saturating_sub(1);
    }
    Ok([allocs, frees])
}

/// The value below which `permille` thousandths of the sorted samples lie (nearest rank).
fn percentile(sorted: &[u64], permille: usize) -> u64 {
    let rank = (sorted.len() * permille).div_ceil(1000).max(1);
    sorted[rank - 1]
}

fn record(call: &str, size: usize, caches: &str, mut samples: Vec<u64>) -> WorstRecord {
    samples.sort_unstable();
    WorstRecord {
        system: String::new(),
        call: call.to_owned(),
        size,
        caches: caches.to_owned(),
        samples: samples.len(),
        min: samples[0],
        p50: percentile(&samples, 500),
        p99: percentile(&samples, 990),
        p99_9: percentile(&samples, 999),
        max: samples[samples.len() - 1],
    }
}

/// Both calls of a source, warm and cold, for one size.
fn measure<S: Source>(
    plan: &Plan,
    size: usize,
    sweep: &Sweep,
    random: &mut Random,
    records: &mut Vec<WorstRecord>,
) -> Result<(), String> {
    let (smaller, source) = (S::new(size - LESS)?, S::new(size)?);
    let heap = smaller.some(plan.live)?;
    // SAFETY: live, each freed once, here or below.
    heap.iter().skip(1).step_by(2).for_each(|&object| unsafe { smaller.free(object) });
    for (caches, wanted, cold) in [("warm", plan.samples, None), ("cold", plan.cold, Some(sweep))] {
        let taken = bursts(&source, wanted, cold, random)?;
        for (call, samples) in S::CALLS.into_iter().zip(taken) {
            records.push(record(call, size, caches, samples));
        }
    }
    // SAFETY: those that were not freed above.
    heap.iter().step_by(2).for_each(|&object| unsafe { smaller.free(object) });
    Ok(())
}

/// Measures as `plan` says, each size by `of_size`, and prints the answer.
fn serve(
    plan: &str,
    of_size: impl Fn(&Plan, usize, &Sweep, &mut Vec<WorstRecord>) -> Result<(), String>,
) -> Result<(), LabError> {
    let plan: Plan = serde_json::from_str(plan)
        .map_err(|_| LabError::Usage("bench-worst-child: expected to be started by `ashlar bench worst`".to_owned()))?;
    // The first CPU has most of the machine's interrupts.
    pin(*allowed_cpus().last().unwrap_or(&0));
    let clock = (0..10_000).map(|_| {
        let start = ticks();
        ticks() - start
    });
    let clock = clock.min().unwrap_or(0);
    let sweep = Sweep::new(plan.sweep_mib);
    let mut records = Vec::new();
    for &size in &plan.sizes {
        of_size(&plan, size, &sweep, &mut records)
            .map_err(|error| LabError::Failed(format!("size {size}: {error}")))?;
    }
    let answer = serde_json::to_string(&Answer { clock, records }).map_err(|e| LabError::Failed(e.to_string()))?;
    output::print(&answer)
}

/// Body of the process of an engine: kmalloc, and caches beside it.
pub(crate) fn engine(plan: &str) -> Result<(), LabError> {
    serve(plan, |plan, size, sweep, records| {
        let from = records.len();
        let mut random = Random::new();
        measure::<Kmalloc>(plan, size, sweep, &mut random, records)?;
        measure::<Cache>(plan, size, sweep, &mut random, records)?;
        // The engine that this process really has.
        let id = Cache::new(LESS)?.0.engine().id();
        records[from..].iter_mut().for_each(|record| id.clone_into(&mut record.system));
        Ok(())
    })
}

/// Body of the process of a malloc. The parent knows what it is called.
pub(crate) fn malloc<C: Calls>(plan: &str) -> Result<(), LabError> {
    C::process_start().map_err(LabError::Failed)?;
    C::thread_start();
    serve(plan, |plan, size, sweep, records| measure::<Malloc<C>>(plan, size, sweep, &mut Random::new(), records))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<u64> = (1..=1000).collect();
        assert_eq!([500, 990, 999, 1000].map(|permille| percentile(&samples, permille)), [500, 990, 999, 1000]);
        assert_eq!(percentile(&[7], 1), 7);
        assert_eq!(percentile(&[1, 9], 999), 9);
    }
}
