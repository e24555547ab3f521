//! What is done beside the threads that allocate: what users, tools and the system do to a process.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::BTreeMap;
use std::time::Instant;

use ashlar::{CacheArgs, DebugFlags, KmemCache, Tunable};

use crate::experiments::soak::child::owned::Heap;
use crate::kit::random::Rng;

/// What is done, in the plural.
const ACTIONS: [&str; 8] = ["reaps", "shrinks", "tunings", "profiles", "validations", "forks", "caches", "reapers"];

/// How often each of them was done.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicU64; ACTIONS.len()]);

impl Counts {
    pub(crate) fn named(&self) -> BTreeMap<String, u64> {
        ACTIONS.into_iter().zip(&self.0).map(|(name, count)| (name.to_owned(), count.load(Ordering::Relaxed))).collect()
    }
}

/// Does one thing after the other until `end`.
pub(crate) fn control(heap: &Heap, counts: &Counts, end: Instant, seed: u64) -> Result<(), String> {
    let mut random = Rng::new(seed);
    let mut result = Ok(());
    while result.is_ok() && Instant::now() < end {
        let action = random.below(ACTIONS.len());
        let cache = &heap.caches()[random.below(heap.caches().len())];
        result = match ACTIONS[action] {
            "reaps" => {
                ashlar::reap();
                Ok(())
            }
            "shrinks" => {
                cache.shrink();
                Ok(())
            }
            "tunings" => {
                tune(cache, &mut random);
                Ok(())
            }
            "profiles" => {
                profile(&mut random);
                Ok(())
            }
            "validations" => match cache.validate() {
                Some(errors) if errors != 0 => Err(format!("{errors} defects in cache {}", cache.name())),
                _ => Ok(()),
            },
            "forks" => fork(heap, &mut random),
            "caches" => make_and_destroy(&mut random),
            _ => {
                if random.below(2) == 0 {
                    // Refused with `reaper=off`.
                    let _ = ashlar::start_reaper();
                } else {
                    ashlar::stop_reaper();
                }
                Ok(())
            }
        };
        counts.0[action].fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(random.below(2000) as u64));
    }
    ashlar::stop_reaper();
    result
}

/// Sets a tunable, where the engine of the cache has it.
fn tune(cache: &KmemCache, random: &mut Rng) {
    let which = Tunable::ALL[random.below(Tunable::ALL.len())];
    let (low, high) = which.range();
    let value = low + random.below((high - low + 1).min(64));
    // An engine without it says so.
    let _ = cache.set_tunable(which, value);
}

/// Starts a profile, or stops the one that runs. Engines other than the default refuse.
fn profile(random: &mut Rng) {
    match random.below(3) {
        0 => ashlar::profile::stop(),
        1 => _ = ashlar::profile::start(1),
        _ => _ = ashlar::profile::start(1 << (8 + random.below(12))),
    }
}

/// Forks amid all that. The child, with one thread, allocates and frees.
fn fork(heap: &Heap, random: &mut Rng) -> Result<(), String> {
    let seed = random.draw();
    // SAFETY: the child calls this allocator and the C library's, which both support that, and
    // ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let mut random = Rng::new(seed);
        let objects: Vec<_> = (0..300).filter_map(|_| heap.alloc(&mut random)).collect();
        let whole = objects.into_iter().try_for_each(|owned| heap.free(owned)).is_ok();
        // SAFETY: ends the child, without what the parent registered for its exit.
        unsafe { libc::_exit(i32::from(!whole)) };
    }
    if pid < 0 {
        // The system has no process left.
        return Ok(());
    }
    let mut status = 0;
    // SAFETY: `pid` is a child of this process, and `status` writable.
    let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    if ended == pid && status == 0 { Ok(()) } else { Err(format!("the child of a fork ended with status {status:#x}")) }
}

/// Makes a cache with arguments drawn at random, uses it, and destroys it.
fn make_and_destroy(random: &mut Rng) -> Result<(), String> {
    let letters = ["-", "-", "-", "F", "ZP", "FZPU"][random.below(6)];
    let flags = DebugFlags::of_letters(letters).unwrap_or_default();
    let args = CacheArgs::DEFAULT.align(8 << random.below(5)).no_merge(random.below(2) == 0).debug(flags);
    let size = 1 + random.below(3000);
    let cache = KmemCache::create("soak-made", size, &args).map_err(|error| error.to_string())?;
    let objects: Vec<_> = (0..random.below(300)).filter_map(|_| cache.alloc()).collect();
    for &object in &objects {
        // SAFETY: allocated above, with so many bytes.
        unsafe { object.as_ptr().write_bytes(0x5a, size) };
    }
    for object in objects {
        // SAFETY: as above; freed once.
        unsafe {
            let bytes = core::slice::from_raw_parts(object.as_ptr(), size);
            if bytes.iter().any(|&byte| byte != 0x5a) {
                return Err(format!(
                    "an object of {size} bytes of a cache of {letters} does not hold what was written"
                ));
            }
            cache.free(object);
        }
    }
    cache.destroy().map_err(|(_, error)| format!("an empty cache was not destroyed: {error}"))
}
