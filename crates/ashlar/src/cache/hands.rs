//! What a tool may ask of a running process: other tunables, memory returned, caches checked.
//!
//! The letters are those of [`crate::base::mailbox`]. Ticks of the background call [`take_up`], and
//! with `reaper=off`, when there are no ticks, slow paths call it after a tool asked for something.
//! No lock is held then. What it does takes the registry lock, and under it the locks that the
//! reaper takes. The C library is not called.

use core::fmt::Write;

use super::{reaper, registry, settings, tune};
use crate::base::mailbox::{DONE, Letter, Mailbox, REFUSED, UNKNOWN, ask};
use crate::base::report;
use crate::engine::{self, DebugFlags, Engine, Tunable, debug};
use settings::Control;

static MAILBOX: Mailbox = Mailbox::new();

/// Returns the address of the mailbox, for a reader outside of the process; 0 if it is closed.
#[place(cold)]
pub(crate) fn mailbox() -> usize {
    if settings::options().control == Control::Off { 0 } else { (&raw const MAILBOX).addr() }
}

/// Empties the mailbox in the child of a fork.
#[place(background)]
pub(crate) fn after_fork_in_child() {
    MAILBOX.after_fork_in_child();
}

/// Does what a letter in the mailbox asks, if there is one.
#[inline(never)]
#[place(background)]
pub(crate) fn take_up(others: Others) {
    // A tool that writes to a mailbox that it was not told of gets no answer.
    MAILBOX.serve(|letter| answer(letter, others));
}

/// Does what a letter asks of layers above; `None` if that is nothing known. The error says why it
/// was not done.
pub(crate) type Others = fn(&Letter) -> Option<(&'static str, Result<(), &'static str>)>;

#[inline(never)]
#[place(background)]
fn answer(letter: &Letter, others: Others) -> Letter {
    let control = settings::options().control;
    let mut answer = Letter::new(letter.number, DONE);
    if control == Control::Off {
        return refuse(answer, "the option control=off closes the mailbox");
    }
    let what = match letter.code {
        ask::TUNE => {
            answer = set(letter.text(), answer);
            "tune"
        }
        ask::SHRINK => {
            answer = shrink(letter.text(), answer);
            "shrink"
        }
        ask::REAP => {
            answer.numbers[0] = reaper::reap_now() as u64;
            "reap"
        }
        ask::VALIDATE => {
            answer = validate(letter.text(), answer);
            "validate"
        }
        _ => match others(letter) {
            Some((what, done)) => {
                if let Err(why) = done {
                    answer = refuse(answer, why);
                }
                what
            }
            None => {
                answer.code = UNKNOWN;
                "unknown"
            }
        },
    };
    if control == Control::Audit {
        audit(what, letter, &answer);
    }
    answer
}

/// Says on standard error what was asked for and what became of it.
#[inline(never)]
#[place(cold)]
fn audit(what: &str, letter: &Letter, answer: &Letter) {
    let space = if letter.text().is_empty() { "" } else { " " };
    let text = Printable(letter.text());
    match answer.code {
        DONE => report::warn(format_args!("control: {what}{space}{text}: done")),
        _ => report::warn(format_args!("control: {what}{space}{text}: refused: {}", Printable(answer.text()))),
    }
}

/// Text that a tool wrote, without what could act on a terminal.
struct Printable<'a>(&'a str);

#[place(cold)]
impl core::fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.chars().try_for_each(|c| f.write_char(if c.is_control() { '?' } else { c }))
    }
}

#[place(background)]
fn refuse(mut answer: Letter, why: &str) -> Letter {
    answer.code = REFUSED;
    let _ = answer.write_str(why);
    answer
}

/// Sets a tunable: `NAME.KEY=VALUE`.
#[place(background)]
fn set(text: &str, mut answer: Letter) -> Letter {
    let parts = text.rsplit_once('=').and_then(|(place, value)| Some((place.rsplit_once('.')?, value)));
    let Some(((name, key), value)) = parts else { return refuse(answer, "expected NAME.KEY=VALUE") };
    if key == "debug" {
        return set_debug(name, value, answer);
    }
    let Some(which) = Tunable::from_name(key) else { return refuse(answer, "no such tunable") };
    let Ok(value) = value.parse::<usize>() else { return refuse(answer, which.expected()) };
    let (mut first, mut done, mut error) = (None, 0, None);
    let found = registry::for_each_named(name, |cache| {
        let before = tune::tunable(cache, which);
        match tune::set_tunable_locked(cache, which, value) {
            Ok(()) => {
                first = first.or(before);
                done += 1;
            }
            Err(refused) => error = Some(refused),
        }
    });
    crate::base::background::settle();
    answer.numbers = [first.unwrap_or(0) as u64, value as u64, done, 0];
    match error {
        _ if found == 0 => refuse(answer, "no such cache"),
        // A pattern sets the tunable where it exists.
        Some(error) if done == 0 => {
            answer.code = REFUSED;
            let _ = write!(answer, "{error}");
            answer
        }
        _ => answer,
    }
}

/// Sets the debug flags of a cache, or of all that have some and whose names fit.
#[inline(never)]
#[place(cold)]
fn set_debug(name: &str, letters: &str, mut answer: Letter) -> Letter {
    let flags = Some(letters).filter(|letters| !letters.is_empty()).and_then(DebugFlags::of_letters);
    let Some(flags) = flags else { return refuse(answer, "debug: expected letters of F, Z, P, U, T and A, or -") };
    let (mut first, mut done, mut error) = (None, 0, None);
    registry::for_each_named(name, |cache| match debug::set_flags(cache, flags) {
        Ok(before) => {
            first = first.or(Some(before));
            done += 1;
        }
        // A cache that is not debugged says less than one that is, if both fit the name.
        Err(why) if cache.engine == Engine::Debug => error = Some(why),
        Err(why) => error = error.or(Some(why)),
    });
    match (first, error) {
        (Some(before), _) => {
            answer.numbers = [0, 0, done, 0];
            let _ = write!(answer, "{flags} {before}");
            answer
        }
        (None, Some(why)) => refuse(answer, why),
        (None, None) => refuse(answer, "no such cache"),
    }
}

/// Returns the free slabs of a cache, or of all.
#[place(background)]
fn shrink(name: &str, mut answer: Letter) -> Letter {
    let [mut before, mut after] = [0; 2];
    let found = registry::for_each_named(if name.is_empty() { "*" } else { name }, |cache| {
        before += engine::usage(cache).bytes as u64;
        engine::shrink(cache);
        after += engine::usage(cache).bytes as u64;
    });
    crate::base::background::settle();
    answer.numbers = [before, after, found as u64, 0];
    if found == 0 { refuse(answer, "no such cache") } else { answer }
}

/// Checks the free objects of a cache, or of all whose engine can be checked.
#[place(background)]
fn validate(name: &str, mut answer: Letter) -> Letter {
    let (mut sum, mut done) = (engine::Validated::default(), 0);
    let found = registry::for_each_named(if name.is_empty() { "*" } else { name }, |cache| {
        if let Some(seen) = engine::validate(cache) {
            if sum.first_corrupt.is_none() && seen.first_corrupt.is_some() {
                let _ = answer.write_str(cache.name());
            }
            sum.add(seen);
            done += 1;
        }
    });
    answer.numbers = [sum.slabs, sum.objects, sum.corrupt, sum.first_corrupt.unwrap_or(0) as u64];
    match () {
        () if found == 0 => refuse(answer, "no such cache"),
        () if done == 0 => refuse(answer, "expected a cache of the engine ashlar"),
        () => answer,
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "overwrites a free object")]
mod tests {
    use super::*;
    use crate::base::mailbox::NUMBERS;
    use crate::{CacheArgs, KmemCache};
    use std::prelude::rust_2024::*;
    use std::vec::Vec;

    fn asked(code: u32, text: &str) -> (u32, [u64; NUMBERS], String) {
        let mut letter = Letter::new(1, code);
        letter.write_str(text).expect("letters cut text");
        let answer = answer(&letter, |_| None);
        (answer.code, answer.numbers, answer.text().to_owned())
    }

    /// Makes a cache of its own whose slabs have holes.
    fn with_holes(name: &str) -> (KmemCache, Vec<*mut u8>, Vec<*mut u8>) {
        let cache = KmemCache::create(name, 104, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
        let objects: Vec<*mut u8> = (0..1000).map(|_| cache.alloc().expect("memory").as_ptr()).collect();
        let (free, kept): (Vec<_>, Vec<_>) = objects.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
        let strip = |list: Vec<(usize, *mut u8)>| list.into_iter().map(|(_, object)| object).collect::<Vec<_>>();
        let (free, kept) = (strip(free), strip(kept));
        // SAFETY: allocated above.
        free.iter().for_each(|&object| unsafe { cache.free(core::ptr::NonNull::new(object).expect("an object")) });
        cache.shrink();
        (cache, free, kept)
    }

    #[test]
    fn tunables_are_set_by_name_and_by_pattern() {
        let (cache, ..) = with_holes("hands.set");
        assert_eq!(asked(ask::TUNE, "hands.set.min_partial=7").0, DONE);
        assert_eq!(cache.info().min_partial, 7);
        assert_eq!(asked(ask::TUNE, "hands.s*.min_partial=9"), (DONE, [7, 9, 1, 0], String::new()));
        for (text, why) in [
            ("hands.set", "expected NAME.KEY=VALUE"),
            ("=", "expected NAME.KEY=VALUE"),
            ("hands.set.colour=1", "no such tunable"),
            ("hands.set.min_partial=x", "min_partial: expected 0 to 1048576 (slabs)"),
            ("hands.set.min_partial=99999999", "min_partial: expected 0 to 1048576 (slabs)"),
            ("hands.set.limit=4", "limit, batchcount and shared: expected a cache of the engine slab or slab24"),
            ("no-such.min_partial=1", "no such cache"),
        ] {
            let (code, _, said) = asked(ask::TUNE, text);
            assert_eq!((code, said.as_str()), (REFUSED, why), "{text}");
        }
        assert_eq!(cache.info().min_partial, 9);
    }

    #[test]
    fn debug_flags_are_set_that_change_no_layout() {
        let args = CacheArgs::DEFAULT.debug(DebugFlags::RED_ZONE.with(DebugFlags::POISON));
        let cache = KmemCache::create("hands.debug", 72, &args).expect("a cache");
        let _plain = KmemCache::create("hands.debug2", 72, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
        let done = |text: &str| (DONE, [0, 0, 1, 0], String::from(text));
        assert_eq!(asked(ask::TUNE, "hands.debug.debug=FZP"), done("FZP ZP"));
        assert_eq!(debug::flags_of(cache.raw_cache()).to_string(), "FZP");
        assert_eq!(asked(ask::TUNE, "hands.debug*.debug=zp"), done("ZP FZP"));
        for (text, why) in [
            ("hands.debug.debug=FU", "debug: Z, P and U are fixed when the cache is made: give the same as it has"),
            ("hands.debug*.debug=-", "debug: Z, P and U are fixed when the cache is made: give the same as it has"),
            ("hands.debug.debug=ZPA", "debug: A: expected a process with ASHLAR_FAILSLAB, which says how often"),
            ("hands.debug.debug=ZPX", "debug: expected letters of F, Z, P, U, T and A, or -"),
            ("hands.debug.debug=", "debug: expected letters of F, Z, P, U, T and A, or -"),
            (
                "hands.debug2.debug=F",
                "debug: expected a cache that is debugged: ASHLAR_DEBUG says so when the program starts",
            ),
            ("no-such.debug=F", "no such cache"),
        ] {
            let (code, _, said) = asked(ask::TUNE, text);
            assert_eq!((code, said.as_str()), (REFUSED, why), "{text}");
        }
        assert_eq!(debug::flags_of(cache.raw_cache()).to_string(), "ZP");
        let object = cache.alloc().expect("memory");
        // SAFETY: allocated here, freed once.
        unsafe { cache.free(object) };
        cache.destroy().expect("every object came back");
    }

    #[test]
    fn a_merged_name_stands_for_the_cache_that_serves_it() {
        let [_one, two] =
            ["hands-one", "hands-two"].map(|name| KmemCache::create(name, 1048, &CacheArgs::DEFAULT).expect("a cache"));
        assert_eq!(asked(ask::TUNE, "hands-two.min_partial=11").0, DONE);
        assert_eq!(two.info().min_partial, 11);
    }

    #[test]
    fn free_slabs_of_one_cache_or_of_all_go_back() {
        let (cache, _, kept) = with_holes("hands-shrink");
        // SAFETY: allocated by `with_holes`.
        kept.iter().for_each(|&object| unsafe { cache.free(core::ptr::NonNull::new(object).expect("an object")) });
        let before = cache.info().usage.bytes as u64;
        let (code, [was, now, caches, _], _) = asked(ask::SHRINK, "hands-shrink");
        assert_eq!((code, caches, now), (DONE, 1, cache.info().usage.bytes as u64));
        assert!(was <= before && now < was, "{was} then {now}");
        assert_eq!(asked(ask::SHRINK, "").0, DONE);
        assert_eq!(asked(ask::SHRINK, "no-such").0, REFUSED);
        assert_eq!(asked(ask::REAP, "").0, DONE);
        assert_eq!(asked(99, "").0, UNKNOWN);
    }

    #[test]
    fn an_overwritten_free_object_is_found_and_left_alone() {
        let (_cache, free, _kept) = with_holes("hands-validate");
        let (code, [slabs, objects, corrupt, _], _) = asked(ask::VALIDATE, "hands-validate");
        assert_eq!((code, corrupt), (DONE, 0));
        assert!(
            slabs as usize > 10 * 4096 / crate::base::units::PAGE_SIZE && objects >= 500,
            "{objects} free objects in {slabs} slabs"
        );
        // The link of an object of this size lies in its middle, so write over all of it.
        let words = free[250].cast::<[u64; 13]>();
        // SAFETY: the memory is mapped, the cache's only user is this test, and nothing allocates
        // from the cache before the words are as they were.
        let (seen, again) = unsafe {
            let before = words.read();
            words.write([!0; 13]);
            let seen = asked(ask::VALIDATE, "hands-validate");
            words.write(before);
            (seen, asked(ask::VALIDATE, "hands-validate"))
        };
        let (code, [all, _, corrupt, first], name) = seen;
        assert_eq!((code, all, corrupt, name.as_str()), (DONE, slabs, 1, "hands-validate"));
        let page = |at: u64| at / crate::base::units::PAGE_SIZE as u64;
        assert_eq!(page(first), page(free[250].addr() as u64));
        assert_eq!((again.0, again.1), (code, [slabs, objects, 0, 0]));
    }
}
