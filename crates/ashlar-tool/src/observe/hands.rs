//! `ashlar tune`, `shrink`, `reap` and `validate`: ask a running process for something.
//!
//! What can be checked before is checked here, so that bad input is refused at once, also by an
//! idle process.

use core::fmt::Write;
use core::time::Duration;
use std::process::ExitCode;
use std::time::Instant;

use ashlar::mailbox::{DONE, Letter, REFUSED, ask};
use ashlar::{DebugFlags, Tunable};

use super::mail::{self, NoAnswer};
use super::process::Target;
use super::report::Report;
use crate::args::{OneCacheArgs, ReapArgs, TuneArgs, Wait};
use crate::error::ToolError;
use crate::output;

/// The key of the letters of `ASHLAR_DEBUG` of a cache, and what they are to be.
const DEBUG: &str = "debug";
const DEBUG_EXPECTED: &str = "expected letters of F, Z, P, U, T and A, or -";

/// A process that is asked for something.
pub(super) struct Asked {
    target: Target,
    report: Report,
    wait: Duration,
}

impl Asked {
    /// Opens a process that the user named.
    pub(super) fn open(pid: i32, wait: &Wait) -> Result<Asked, ToolError> {
        let target = Target::open(pid).map_err(|(refusal, name)| refusal.error(pid, &name))?;
        let report = target.report().map_err(|refusal| refusal.error(pid, &target.name))?;
        Ok(Asked { target, report, wait: Duration::from_secs_f64(wait.timeout) })
    }

    fn who(&self) -> String {
        format!("PID: {} ({})", self.report.pid, self.report.name)
    }

    /// Sends a letter to each allocator of the process, and returns the answers of those that did
    /// it. An allocator that has no such cache does not count, unless none has.
    pub(super) fn send(&self, code: u32, text: &str) -> Result<Vec<Letter>, ToolError> {
        let mut letter = Letter::new(0, code);
        letter.write_str(text).map_err(|error| ToolError::Failed(error.to_string()))?;
        if letter.text() != text {
            return Err(ToolError::Usage(format!("\"{text}\": too long for a request")));
        }
        let (mut done, mut refused) = (Vec::new(), None);
        for window in self.target.every_window().map_err(|refusal| refusal.error(self.report.pid, &self.report.name))? {
            match self.send_to(&window, &letter)? {
                answer if answer.code == DONE => done.push(answer),
                answer => refused = Some(answer),
            }
        }
        match refused {
            Some(answer) if done.is_empty() => Err(ToolError::Usage(match answer.code {
                REFUSED => format!("{}: refused: {}", self.who(), super::memory::printable(answer.text().as_bytes())),
                _ => format!("{}: its version of ashlar does not know this request", self.who()),
            })),
            _ => Ok(done),
        }
    }

    fn send_to(&self, window: &ashlar::window::Window, letter: &Letter) -> Result<Letter, ToolError> {
        let memory = self.target.writable().map_err(|refusal| refusal.error(self.report.pid, &self.report.name))?;
        mail::ask(&memory, window, letter, self.wait).map_err(|error| {
            let who = self.who();
            match error {
                NoAnswer::Idle if self.report.state == 'T' => ToolError::Failed(format!(
                    "{who}: it is stopped. The request was withdrawn, and nothing was changed"
                )),
                NoAnswer::Idle | NoAnswer::Busy | NoAnswer::Crowded => ToolError::Failed(format!("{who}: {error}")),
                error => ToolError::Usage(format!("{who}: {error}")),
            }
        })
    }

    /// Refuses a name of a cache that no allocator of the process has; a name may end in `*`.
    fn check_cache(&self, name: &str) -> Result<(), ToolError> {
        let fits = |of: &String| name.strip_suffix('*').map_or(of == name, |start| of.starts_with(start));
        let has = |allocator: &super::report::Allocator| {
            let merged = allocator.aliases.iter().map(|alias| &alias.name);
            allocator.caches.iter().map(|cache| &cache.name).chain(merged).any(fits)
        };
        if self.report.allocators.iter().any(has) {
            return Ok(());
        }
        let Report { pid, name: process, .. } = &self.report;
        Err(ToolError::option("CACHE", format_args!("{name}: PID {pid} ({process}) has no such cache")))
    }
}

/// Runs `ashlar tune`.
pub(crate) fn tune(args: &TuneArgs) -> Result<ExitCode, ToolError> {
    let settings = args.settings.iter().map(|text| Setting::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let process = Asked::open(args.process.pid, &args.wait)?;
    settings.iter().try_for_each(|setting| process.check_cache(setting.cache))?;
    for Setting { cache, key, value } in settings {
        for answer in process.send(ask::TUNE, &format!("{cache}.{key}={value}"))? {
            let [before, after, caches, _] = answer.numbers;
            let others = if caches == 1 { String::new() } else { format!(" in {caches} caches, the first") };
            let (before, after) = match super::memory::printable(answer.text().as_bytes()).split_once(' ') {
                Some((after, before)) => (before.to_owned(), after.to_owned()),
                None => (before.to_string(), after.to_string()),
            };
            output::print(&format!("{cache}.{key}: {after}{others} (was {before})\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `NAME.KEY=VALUE`, with or without `cache.` before it.
struct Setting<'a> {
    cache: &'a str,
    key: &'a str,
    value: &'a str,
}

impl Setting<'_> {
    fn parse(text: &str) -> Result<Setting<'_>, ToolError> {
        let fail = |why: &str| ToolError::option("SETTING", format_args!("{text}: {why}"));
        let parts = text.rsplit_once('=').and_then(|(place, value)| Some((place.rsplit_once('.')?, value)));
        let Some(((name, key), value)) = parts else { return Err(fail("expected cache.NAME.KEY=VALUE")) };
        let cache = name.strip_prefix("cache.").unwrap_or(name);
        if cache.is_empty() {
            return Err(fail("expected cache.NAME.KEY=VALUE"));
        }
        if key == DEBUG {
            let good = !value.is_empty() && DebugFlags::of_letters(value).is_some();
            return if good { Ok(Setting { cache, key, value }) } else { Err(fail(DEBUG_EXPECTED)) };
        }
        let Some(which) = Tunable::from_name(key) else {
            let names = Tunable::ALL.map(Tunable::name).join(", ");
            return Err(fail(&format!("{key}: unknown key, expected one of {names}, {DEBUG}")));
        };
        let (low, high) = which.range();
        let is_good = value.parse().is_ok_and(|value: usize| (low..=high).contains(&value));
        if is_good { Ok(Setting { cache, key, value }) } else { Err(fail(which.expected())) }
    }
}

/// Has a process start a heap profile, and waits until it runs: a process with one thread starts it
/// with the next call of `malloc` by the program itself.
pub(crate) fn start_profile(pid: i32, rate: u64, wait: &Wait) -> Result<(), ToolError> {
    let process = Asked::open(pid, wait)?;
    process.send(ask::PROFILE_START, &rate.to_string())?;
    let until = Instant::now() + process.wait;
    while !super::heap_profile(pid).is_ok_and(|profile| profile.rate != 0) {
        if Instant::now() > until {
            process.send(ask::PROFILE_STOP, "")?;
            return Err(ToolError::Failed(format!(
                "{}: it has one thread, and made no call of malloc that could load the unwinder. The request was \
                 withdrawn; ASHLAR_OPTIONS=profile=ready loads it with the program",
                process.who()
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Has a process stop its heap profile.
pub(crate) fn stop_profile(pid: i32, wait: &Wait) -> Result<(), ToolError> {
    Asked::open(pid, wait)?.send(ask::PROFILE_STOP, "").map(|_| ())
}

/// Runs `ashlar shrink`.
pub(crate) fn shrink(args: &OneCacheArgs) -> Result<ExitCode, ToolError> {
    let process = Asked::open(args.process.pid, &args.wait)?;
    let cache = args.cache.as_deref().unwrap_or_default();
    if !cache.is_empty() {
        process.check_cache(cache)?;
    }
    for answer in process.send(ask::SHRINK, cache)? {
        let [before, after, caches, _] = answer.numbers;
        let plural = if caches == 1 { "cache" } else { "caches" };
        let (before, after) = (before >> 10, after >> 10);
        output::print(&format!("{caches} {plural}: slabs of {after} KiB (were {before} KiB)\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `ashlar reap`.
pub(crate) fn reap(args: &ReapArgs) -> Result<ExitCode, ToolError> {
    let process = Asked::open(args.process.pid, &args.wait)?;
    for answer in process.send(ask::REAP, "")? {
        output::print(&format!("{} KiB returned to the system\n", answer.numbers[0].saturating_mul(4)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `ashlar validate`.
pub(crate) fn validate(args: &OneCacheArgs) -> Result<ExitCode, ToolError> {
    let process = Asked::open(args.process.pid, &args.wait)?;
    let cache = args.cache.as_deref().unwrap_or_default();
    if !cache.is_empty() {
        process.check_cache(cache)?;
    }
    let mut code = ExitCode::SUCCESS;
    for answer in process.send(ask::VALIDATE, cache)? {
        let [slabs, objects, corrupt, first] = answer.numbers;
        let mut text = format!("{slabs} partial slabs and their {objects} free objects checked: ");
        let name = super::memory::printable(answer.text().as_bytes());
        text += &match corrupt {
            0 => "sound\n".to_owned(),
            _ => format!("{corrupt} corrupt, the first at {first:#x} in {name}\n"),
        };
        output::print(&text)?;
        if corrupt > 0 {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}
