//! The sampled heap profile: where the memory of a program was allocated.
//!
//! # Sampling
//! While a profile runs, each CPU counts down the bytes that are handed out there. The object with
//! which the count falls below zero is a *sample*, and the next count is drawn at random, with an
//! exponential distribution (`random`). So each byte is as likely to be met as any other, whatever
//! came before, and an object of `size` bytes is a sample with the probability
//! `1 - exp(-size / rate)`. A sample stands for the inverse of that in objects, which makes sums
//! unbiased. The rate 1 is an exception: then each object is a sample.
//!
//! The fast path of `malloc` does not count. While a profile runs, its bound is 0, so each call
//! jumps to the slow path, which starts with a copy of the fast path that counts
//! (`faces::malloc::counted`). Without a profile, no path has an instruction for it but the slow
//! path: two. The bound of `kmalloc` is 0 in the same way, and its slow path counts
//! (`faces::kmalloc::profiled`). Handles of caches have no bound. So the sheaves of the caches of
//! the program are in another slot meanwhile ([`crate::cache::sampling`]), each of their calls
//! takes the slow path, and that counts.
//!
//! # Frees
//! The object map holds [`SAMPLED`] for a sample in place of its code. That entry leads `free` to a
//! slot that never has room, and so to the slow path, which takes the sample out of the table.
//! Other objects are freed as usual. Large objects have no entry. Their frees take a slow path
//! anyway, and look into the table once a profile has run. The slab of a sample of kmalloc or of a
//! cache is marked ([`marks`]), which leads frees by address there to the slow path. Sized frees
//! examine the address as `kfree` does, once a profile has run.
//!
//! Frees by the handle of a cache are noticed while the profile runs. When it stops, the fast paths
//! work again, and the samples of the cache stay in the table as they are.
//!
//! # What it needs
//! Backtraces come from the unwinder of the C compiler's library (`base::os::unwind`), and are made
//! while no lock is held. Samples are in a table of their own
//! (`samples`). The child of a fork goes on with its copy of the table.
#![allow(unsafe_code, reason = "counts in the areas of CPUs")]

mod dump;
mod marks;
mod probes;
mod random;
mod samples;

use core::ptr::NonNull;

use crate::base::background;
use crate::base::mailbox::{Letter, ask};
use crate::base::os;
use crate::base::sync::{AtomicUsize, Ordering};
use crate::cache::registry;
use crate::cache::sampling;
use crate::cache::settings;
use crate::engine::route::{Watcher, watch};
use crate::engine::{Engine, RawCache};
use crate::percpu;
use crate::percpu::area::PERCPU;
use crate::sizes::diversion::{self, By};
use crate::sizes::guarded;
use crate::sizes::kmalloc;
use crate::sizes::malloc::LIMIT;
use crate::sizes::malloc::classes::{Code, class_of};
use crate::sizes::object_map::OBJECTS;
pub(crate) use dump::{FORMAT, dump, pid_line};
use samples::DEPTH;
pub(crate) use samples::{LAYOUT, for_each_lock};

/// The largest rate, in bytes.
pub(crate) const MOST_RATE: usize = 16 << 20;
/// What is counted for one object at most, so that counts do not wrap.
const MOST_COUNTED: usize = 1 << 30;
/// The entry of a sample in the object map: one of no class. Its slot has no room for ever.
pub(crate) const SAMPLED: u8 = 1;

/// Bytes between samples on average; 0 while no profile runs.
static RATE: AtomicUsize = AtomicUsize::new(0);
/// 1 once a profile has run.
static EVER: AtomicUsize = AtomicUsize::new(0);
/// When the profile started.
static STARTED_MS: AtomicUsize = AtomicUsize::new(0);
/// The rate of a profile that starts with the next call of `malloc` that may load the unwinder; 0
/// if none is awaited.
static AWAITED: AtomicUsize = AtomicUsize::new(0);

/// Why a profile cannot start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProfileError {
    /// The rate is 0, or above 16 MiB.
    Rate,
    /// The engine of malloc's caches is another than `ashlar`.
    Engine,
    /// There is no unwinder: `libgcc_s.so.1` cannot be loaded.
    Unwinder,
    /// The system refuses memory for the table, or the allocator cannot start.
    Memory,
}

#[place(cold)]
impl core::fmt::Display for ProfileError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Rate => "profile: expected a rate of 1 to 16M bytes",
            Self::Engine => "profile: expected engine=ashlar: other engines have no profile",
            Self::Unwinder => "profile: no unwinder for backtraces: libgcc_s.so.1 cannot be loaded",
            Self::Memory => "profile: no memory for the table of samples",
        })
    }
}

impl core::error::Error for ProfileError {}

/// Starts a profile: a sample about each `rate` bytes. A profile that runs starts anew. The caller
/// is a function of the program, never an allocation, and the allocator has started.
#[place(cold)]
#[inline(never)]
pub(crate) fn start(rate: usize) -> Result<(), ProfileError> {
    if !(1..=MOST_RATE).contains(&rate) {
        return Err(ProfileError::Rate);
    }
    if settings::options().engine != Engine::Sheaves {
        return Err(ProfileError::Engine);
    }
    if !os::load_unwinder() {
        return Err(ProfileError::Unwinder);
    }
    stop();
    if !samples::open() {
        return Err(ProfileError::Memory);
    }
    random::seed(os::random_u64());
    for cpu in percpu::all_cpus() {
        PERCPU.sample_budget(cpu).store(random::gap(rate) as u32, Ordering::Relaxed);
    }
    STARTED_MS.store(os::now_ms() as usize, Ordering::Relaxed);
    EVER.store(1, Ordering::Relaxed);
    // Before the first sample: a thread that frees it sees that its free must be noticed.
    kmalloc::close_sized_frees();
    sampling::begin_or_end(true);
    registry::for_each(sampling::begin);
    RATE.store(rate, Ordering::Release);
    watch(Watcher::Profile, true);
    if rate == 1 {
        diversion::divert(By::EachObject);
    }
    diversion::divert(By::Profile);
    Ok(())
}

/// Diverts calls of malloc or kmalloc, which have just started, and after the profile did.
#[place(cold)]
#[inline(never)]
pub(crate) fn catch_up() {
    if ever_on() {
        kmalloc::close_sized_frees();
    }
    diversion::apply();
}

/// Does what a letter in the mailbox asks of the profile; see `cache::hands`.
#[place(cold)]
#[inline(never)]
pub(crate) fn asked(letter: &Letter) -> Option<(&'static str, Result<(), &'static str>)> {
    match letter.code {
        ask::PROFILE_START => Some(("profile start", start_as_asked(letter.text()))),
        ask::PROFILE_STOP => {
            stop();
            Some(("profile stop", Ok(())))
        }
        _ => None,
    }
}

/// Has the next call of `malloc` by the program itself start the profile, in a process with one
/// thread. Counts are below zero meanwhile, so each call leaves the fast path, which is the one
/// with a count.
#[place(cold)]
fn await_call(rate: usize) -> Result<(), &'static str> {
    if !(1..=MOST_RATE).contains(&rate) {
        return Err("expected a rate of 1 to 16777216 bytes");
    }
    if !(cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) && LIMIT.is_open() && os::has_one_thread()) {
        return Err("no unwinder can be loaded now: start it with ASHLAR_OPTIONS=profile=ready");
    }
    for cpu in percpu::all_cpus() {
        PERCPU.sample_budget(cpu).store(u32::MAX, Ordering::Relaxed);
    }
    AWAITED.store(rate, Ordering::Relaxed);
    diversion::divert(By::Awaited);
    Ok(())
}

/// Starts the profile that is awaited, in a call of `malloc` that returns to `caller`.
///
/// The C library may call `malloc` under locks of its own, or in the middle of a change of its
/// tables of libraries. The program does neither, so the unwinder can be loaded in a call of the
/// program. In a process with several threads, another one might wait for the program's locks and
/// hold the loader's, so nothing is done. The library's thread starts the profile when it is asked
/// again.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[place(cold)]
#[inline(never)]
pub(crate) fn start_awaited(caller: usize) {
    if !os::has_one_thread() || os::is_of_c_library(caller) {
        return;
    }
    let rate = AWAITED.swap(0, Ordering::Relaxed);
    if rate != 0 {
        diversion::go_back(By::Awaited);
        // A tool sees that none runs, and says so.
        let _ = start(rate);
    }
}

/// Returns whether a profile starts with the next call that may load the unwinder.
#[inline]
pub(crate) fn is_awaited() -> bool {
    AWAITED.load(Ordering::Relaxed) != 0
}

/// Starts a profile in a tick, which may be inside an allocation of the C library. So the unwinder
/// must be there already, unless the tick is one of the background thread.
#[place(cold)]
fn start_as_asked(rate: &str) -> Result<(), &'static str> {
    let rate = rate.parse::<usize>().map_err(|_| "expected a rate in bytes")?;
    if is_on() || is_awaited() {
        return Err("a profile runs already");
    }
    if !os::has_unwinder() && !background::is_this_thread() {
        return await_call(rate);
    }
    start(rate).map_err(|error| match error {
        ProfileError::Rate => "expected a rate of 1 to 16777216 bytes",
        ProfileError::Engine => "expected engine=ashlar: other engines have no profile",
        ProfileError::Unwinder => "libgcc_s.so.1 cannot be loaded",
        ProfileError::Memory => "no memory for the table of samples",
    })
}

/// Stops the profile. What was sampled stays, and frees of samples are still noticed, but for those
/// by the handle of a cache.
#[place(cold)]
#[inline(never)]
pub(crate) fn stop() {
    if AWAITED.swap(0, Ordering::Relaxed) != 0 {
        diversion::go_back(By::Awaited);
    }
    if RATE.swap(0, Ordering::AcqRel) != 0 {
        watch(Watcher::Profile, false);
        diversion::go_back(By::Profile);
        diversion::go_back(By::EachObject);
        sampling::begin_or_end(false);
        samples::close_to_program();
        registry::for_each(sampling::end);
        guarded::resume();
    }
}

/// Returns the addresses of the table of samples, of the rate and of the start, for the window.
#[place(cold)]
pub(crate) fn words() -> [usize; 3] {
    [samples::address(), (&raw const RATE).addr(), (&raw const STARTED_MS).addr()]
}

/// Loads the unwinder, for a tool that may ask for a profile.
#[place(cold)]
pub(crate) fn load_unwinder() {
    os::load_unwinder();
}

/// Returns whether a profile runs.
#[inline]
pub(crate) fn is_on() -> bool {
    RATE.load(Ordering::Relaxed) != 0
}

/// Returns whether a profile has run.
#[inline]
pub(crate) fn ever_on() -> bool {
    EVER.load(Ordering::Relaxed) != 0
}

/// Counts an object of `size` bytes that was just allocated, and enters it if it is a sample.
#[place(cold)]
#[inline(never)]
pub(crate) fn count(object: NonNull<u8>, size: usize) {
    let rate = RATE.load(Ordering::Acquire);
    if is_due(size, rate) {
        enter(object.as_ptr() as usize, size, rate);
    }
}

/// Counts `size` bytes. Returns whether their object is a sample.
#[place(cold)]
fn is_due(size: usize, rate: usize) -> bool {
    if rate <= 1 {
        return rate == 1;
    }
    let counted = size.clamp(1, MOST_COUNTED) as i32;
    let budget = PERCPU.sample_budget(percpu::this_cpu_quick());
    // Not one step, which would cost more than the rest. If a thread is preempted between the two,
    // the bytes counted meanwhile are forgotten. That is rare, and no size is likelier than others.
    let left = (budget.load(Ordering::Relaxed) as i32).wrapping_sub(counted);
    budget.store(left as u32, Ordering::Relaxed);
    if left >= 0 {
        return false;
    }
    budget.store(random::gap(rate) as u32, Ordering::Relaxed);
    true
}

/// Enters a sample.
#[place(cold)]
#[inline(never)]
fn enter(address: usize, size: usize, rate: usize) {
    let cache = registry::cache_of_address(address);
    // The frees of objects of other engines are not noticed.
    if cache.is_some_and(|cache| cache.engine != Engine::Sheaves) {
        return;
    }
    // A profile that started meanwhile may not have closed the cache's slot yet.
    if cache.is_some_and(|cache| cache.policy.of_program && !sampling::is_sampled(cache)) {
        return;
    }
    let mut frames = [0; DEPTH];
    let (depth, extent) = os::capture(&mut frames);
    let sample = samples::Sample {
        address,
        size,
        class_size: cache.map_or(0, RawCache::object_size),
        cache: cache.map_or("", RawCache::name),
        of_program: cache.is_some_and(|cache| cache.policy.of_program),
        rate,
        born_ms: os::now_ms(),
        thread: os::thread::current(),
        name: os::thread::name(),
        frames: frames.get(..depth).unwrap_or(&[]),
        extent,
    };
    if let Some(weight) = samples::add(&sample) {
        if cache.is_some_and(|cache| cache.policy.tracked) {
            OBJECTS.enter(address, SAMPLED);
        }
        probes::alloc(address, size, weight as u64);
    }
}

/// Takes the sample at `address`, which is freed, out of the table.
#[place(cold)]
#[inline(never)]
pub(crate) fn freed(address: usize) {
    if samples::remove(address) {
        probes::free(address);
    }
}

/// Counts an object of a cache of the program that was just allocated.
#[place(cold)]
#[inline(never)]
pub(crate) fn count_in(cache: &'static RawCache, object: NonNull<u8>) {
    if sampling::is_sampled(cache) {
        count(object, cache.object_size());
    }
}

/// Takes the object at `address`, which is freed and is not of a tracked cache, out of the table if
/// it is a sample.
#[place(cold)]
#[inline(never)]
pub(crate) fn freed_object(address: usize) {
    if marks::is_marked(address) {
        freed(address);
    }
}

/// The object of the sample at `old` lies at `new` now.
#[place(cold)]
#[inline(never)]
pub(crate) fn relocated(old: usize, new: usize) {
    samples::relocate(old, new);
}

/// Returns the entry of the object map that an object would have if it were no sample; 0 for one of
/// a debugged cache, which has none.
#[place(cold)]
#[inline(never)]
pub(crate) fn entry_of_sample(address: usize) -> u8 {
    let tracked = registry::cache_of_address(address).filter(|cache| cache.policy.tracked);
    tracked.map_or(0, |cache| Code::of_class(class_of(cache.object_size())).entry())
}

/// Forgets what other threads were doing at the fork.
#[place(background)]
pub(crate) fn after_fork_in_child() {
    os::forget_other_backtraces();
}
