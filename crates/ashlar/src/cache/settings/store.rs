//! Where the settings are kept, and where they come from.
//!
//! Locks: the *options lock* and the *debug options lock*, leaves; the
//! reaper and the creation of caches read under them.

use super::debug::{self, Debugging};
use super::options::{self, OptionError, Options};
use super::own::{CacheOptions, Candidate, Own};
use crate::base::report;
use crate::base::sync::{AtomicBool, AtomicU32, Ordering, SpinLock, Visit};
use crate::engine::Engine;
use crate::engine::route::Guarding;
use crate::percpu::Wanted;
use crate::slab::OrderRule;
use ashlar_macros::place;

#[place(large_data)]
static OPTIONS: SpinLock<Settings> = SpinLock::new(Settings { all: Options::DEFAULT, own: CacheOptions::NONE });
/// The text of `ASHLAR_DEBUG`.
#[place(large_data)]
static DEBUG: SpinLock<debug::Text> = SpinLock::new(debug::Text::NONE);
static HAS_DEBUG: AtomicBool = AtomicBool::new(false);
/// CPUs of the machine that are present, for the order rule.
static CPUS: AtomicU32 = AtomicU32::new(1);

/// The debugging that `checks=paranoid` stands for.
const PARANOID: &str = "FZP";

/// What was asked for.
struct Settings {
    all: Options,
    /// Of single caches.
    own: CacheOptions,
}

/// Takes the options of `text`, if `may_change` returns true under the lock. See
/// [`crate::configure`].
#[place(cold)]
pub(crate) fn configure_if(may_change: impl FnOnce() -> bool, text: &str) -> Result<(), OptionError<'_>> {
    let mut settings = OPTIONS.lock();
    let Settings { all, own } = &mut *settings;
    let mut first = None;
    if !may_change() {
        return Err(OptionError { part: text, expected: OptionError::TOO_LATE });
    }
    let percpu = all.percpu;
    options::parse(text, all, own, |error| {
        first.get_or_insert(error);
    });
    if all.percpu == Wanted::Emulate {
        all.percpu = percpu;
        first.get_or_insert(OptionError { part: "percpu=emulate", expected: "in ASHLAR_OPTIONS only" });
    }
    let wants_backtraces = all.backtrace || all.guard != Guarding::Off;
    drop(settings);
    #[cfg(feature = "os")]
    if wants_backtraces {
        crate::base::os::load_unwinder();
    }
    #[cfg(not(feature = "os"))]
    let _ = wants_backtraces;
    first.map_or(Ok(()), Err)
}

/// Takes `ASHLAR_DEBUG` and `ASHLAR_FAILSLAB`. Reports each part that is none.
#[cfg(feature = "os")]
#[place(cold)]
fn read_debug_environment() {
    use crate::base::os::secure_env;
    match secure_env(c"ASHLAR_DEBUG").map(core::str::from_utf8) {
        None => {}
        Some(Ok(text)) => match debug::Text::of(text) {
            Ok(kept) => {
                *DEBUG.lock() = kept;
                HAS_DEBUG.store(true, Ordering::Relaxed);
            }
            Err(error) => report::warn(format_args!("ASHLAR_DEBUG: {error}")),
        },
        Some(Err(_)) => report::warn(format_args!("ASHLAR_DEBUG: expected UTF-8")),
    }
    let failslab = secure_env(c"ASHLAR_FAILSLAB").map(core::str::from_utf8);
    match failslab.map(|text| debug::parse_failslab(text.unwrap_or("?"))) {
        None => {}
        Some(Some(failures)) => crate::engine::debug::failures::set(failures),
        Some(None) => report::warn(format_args!("ASHLAR_FAILSLAB: {}", debug::FAILSLAB_EXPECTED)),
    }
}

/// Has every cache debugged, if an option says so and `ASHLAR_DEBUG` does not say anything. Called
/// by start-up.
#[place(cold)]
pub(crate) fn settle() {
    if options().paranoid && !has_debugging() {
        // The text is good.
        *DEBUG.lock() = debug::Text::of(PARANOID).unwrap_or(debug::Text::NONE);
        HAS_DEBUG.store(true, Ordering::Relaxed);
    }
}

/// Whether `ASHLAR_DEBUG` says anything, which it does for few programs.
pub(crate) fn has_debugging() -> bool {
    HAS_DEBUG.load(Ordering::Relaxed)
}

/// Returns which debugging the options have for a cache.
#[place(cold)]
pub(crate) fn debugging(name: &str) -> Debugging {
    DEBUG.lock().of_cache(name)
}

/// Takes the options of the environment. Reports each part that is not an option.
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn read_environment() {
    read_debug_environment();
    let Some(bytes) = crate::base::os::secure_env(c"ASHLAR_OPTIONS") else { return };
    let Ok(text) = core::str::from_utf8(bytes) else {
        return report::warn(format_args!("ASHLAR_OPTIONS: expected UTF-8"));
    };
    let mut settings = OPTIONS.lock();
    let Settings { all, own } = &mut *settings;
    options::parse(text, all, own, |error| {
        report::warn(format_args!("ASHLAR_OPTIONS: {error}"));
    });
}

/// Returns whether reports will have backtraces, before the environment has been read.
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn wants_backtraces() -> bool {
    use crate::base::os::secure_env;
    let text = secure_env(c"ASHLAR_OPTIONS").and_then(|bytes| core::str::from_utf8(bytes).ok());
    secure_env(c"ASHLAR_DEBUG").is_some() || text.is_some_and(options::has_backtrace)
}

/// Returns the options in force.
pub(crate) fn options() -> Options {
    OPTIONS.lock().all
}

/// Returns the engine that the options have for a cache of the program.
pub(crate) fn own_engine(name: &str) -> Option<Engine> {
    #[place(cold)]
    #[inline(never)]
    fn look_up(name: &str) -> Option<Engine> {
        OPTIONS.lock().own.engine(name)
    }
    if has_own() { look_up(name) } else { None }
}

/// Whether there are options of single caches, which most programs do not have.
fn has_own() -> bool {
    !OPTIONS.lock().own.is_empty()
}

/// Returns what the options have for one cache. What it cannot have is left out, with one line on
/// standard error for each option.
pub(crate) fn own_options(cache: Candidate<'_>) -> Own {
    if has_own() { look_up_own(cache) } else { Own::default() }
}

#[place(cold)]
#[inline(never)]
fn look_up_own(cache: Candidate<'_>) -> Own {
    // Reported without the lock: a reader that is slow to take the line must not stop other
    // threads.
    loop {
        let mut settings = OPTIONS.lock();
        let Some((option, expected)) = settings.own.untold(cache) else { return settings.own.of(cache) };
        drop(settings);
        report::warn(format_args!("option `{option}` for cache {}: {expected}", cache.name));
    }
}

/// Visits the options lock, for a fork.
pub(crate) fn for_each_lock(visit: Visit<'_>) {
    visit(OPTIONS.word());
    visit(DEBUG.word());
}

/// Sets the number of CPUs that the order rule is for.
pub(crate) fn set_cpus(present: u32) {
    CPUS.store(present, Ordering::Relaxed);
}

/// Returns the order rule in force and the number of CPUs it is for.
pub(crate) fn order_rule() -> (OrderRule, u32) {
    (options().order, CPUS.load(Ordering::Relaxed))
}
