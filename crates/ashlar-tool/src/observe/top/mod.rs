//! `ashlar top`: rates and growth of a process's caches, or of all processes, as they happen.

mod model;
mod terminal;
#[cfg(test)]
mod tests;
mod view;

use core::time::Duration;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::time::Instant;

use termion::event::Key;

use model::{Model, Sample};
use terminal::{Screen, Woken};
use view::Shown;

use super::report::Report;
use super::{info, ps, text};
use crate::args::{Column, TopArgs};
use crate::error::ToolError;
use crate::output;
use crate::profile::text::of_cache as sites_of_cache;

/// Where the samples come from.
struct Source {
    /// The process; `None` for all.
    pid: Option<i32>,
    reports: Vec<Report>,
    /// The sites of the cache that is shown, and the samples until they are read again: their names
    /// are looked up in the files of the program.
    sites: Option<Sites>,
}

struct Sites {
    cache: String,
    text: String,
    left: u32,
}

/// The samples after which sites are read again, and the most sites.
const SITES_LAST: u32 = 10;
const MOST_SITES: usize = 10;

impl Source {
    fn of(pid: Option<i32>) -> Source {
        Source { pid, reports: Vec::new(), sites: None }
    }

    fn sample(&mut self) -> Result<Sample, ToolError> {
        if let Some(sites) = &mut self.sites {
            sites.left = sites.left.saturating_sub(1);
        }
        match self.pid {
            Some(pid) => {
                self.reports = vec![info::read(pid)?];
                Ok(Sample::of_process(&self.reports[0]))
            }
            None => {
                self.reports = ps::readable()?;
                Ok(Sample::of_all(&self.reports))
            }
        }
    }

    /// What stands above the table.
    fn head(&self, model: &Model) -> Vec<String> {
        let since = format!("growth since {:.0} s", model.since_mark());
        match (self.pid, self.reports.first()) {
            (Some(_), Some(report)) => {
                let mut lines = text::summary(report);
                if let Some(last) = lines.last_mut() {
                    *last = format!("{last}, {since}");
                }
                lines
            }
            _ => vec![format!("processes on ashlar: {}, {since}", self.reports.len())],
        }
    }

    /// All figures of the cache of a row, and the sites that allocated its objects.
    fn detail(&mut self, name: &str) -> Option<String> {
        let sites = self.sites(name);
        let report = self.reports.first()?;
        let mut caches =
            report.allocators.iter().flat_map(|allocator| allocator.caches.iter().map(move |cache| (allocator, cache)));
        let (allocator, cache) = caches.find(|(_, cache)| Some(cache.name.as_str()) == name.split('#').next())?;
        Some(format!("{}\n{sites}\n{}", text::figures_of(report, cache), text::events_of(allocator, cache)))
    }

    fn sites(&mut self, name: &str) -> String {
        let known = self.sites.as_ref().filter(|sites| sites.cache == name && sites.left > 0);
        if let Some(sites) = known {
            return sites.text.clone();
        }
        let cache = name.split('#').next().unwrap_or(name);
        let profile = self.pid.and_then(|pid| super::heap_profile(pid).ok());
        let text = match profile {
            Some(profile) => sites_of_cache(&profile, cache, MOST_SITES),
            None => "sites: no heap profile was started; `ashlar profile PID --start` starts one\n".to_owned(),
        };
        self.sites = Some(Sites { cache: name.to_owned(), text: text.clone(), left: SITES_LAST });
        text
    }
}

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<ExitCode, ToolError> {
    let mut source = Source::of(args.pid);
    let filter = args.filter.clone().unwrap_or_default();
    let mut model = Model::new(source.sample()?, args.sort, filter);
    let interval = Duration::from_secs_f64(args.interval);
    if args.once || args.json {
        std::thread::sleep(interval);
        model.add(source.sample()?);
        let text =
            if args.json { json(&model)? } else { source.head(&model).join("\n") + "\n\n" + &view::text(&model) };
        output::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !stdout().is_terminal() {
        return Err(ToolError::option("top", "standard output is not a terminal: use --once or --json"));
    }
    let failed = |error: std::io::Error| ToolError::Failed(format!("terminal: {error}"));
    let mut screen = Screen::open().map_err(failed)?;
    let outcome = watch(&mut screen, &mut source, &mut model, interval);
    // The line of an error is for the screen that was there before.
    drop(screen);
    outcome.map(|()| ExitCode::SUCCESS)
}

/// The rows as a line of JSON.
fn json(model: &Model) -> Result<String, ToolError> {
    let rows = model.rows().into_iter().map(|row| {
        serde_json::json!({
            "name": row.item.name,
            "active": row.item.active,
            "cached": row.item.cached,
            "bytes": row.item.bytes,
            "active_bytes": row.item.live,
            "pinned_bytes": row.item.pinned,
            "growth_bytes": row.growth,
            "alloc_slow_per_second": row.allocs,
            "free_slow_per_second": row.frees,
        })
    });
    Ok(ps::to_json(&rows.collect::<Vec<_>>())? + "\n")
}

/// Samples and draws until a key ends it.
fn watch(screen: &mut Screen, source: &mut Source, model: &mut Model, interval: Duration) -> Result<(), ToolError> {
    let failed = |error: std::io::Error| ToolError::Failed(format!("terminal: {error}"));
    let mut shown = Shown::default();
    let mut open = None;
    let mut next = Instant::now() + interval;
    loop {
        shown.head = source.head(model);
        shown.detail = open.as_deref().and_then(|name| source.detail(name));
        screen.terminal().draw(|frame| view::draw(frame, model, &shown)).map_err(failed)?;
        match screen.wait(next).map_err(failed)? {
            Woken::Resized => {}
            Woken::Key(key) => match pressed(key, model, &mut shown) {
                Action::Quit => return Ok(()),
                Action::Open(name) if source.pid.is_some() => (open, shown.scrolled) = (Some(name), 0),
                Action::Open(_) => {
                    // A process of the list becomes the one that is watched.
                    let row = model.rows().into_iter().nth(model.selected);
                    if let Some(pid) = row.and_then(|row| row.item.pid) {
                        source.pid = Some(pid);
                        *model = Model::new(source.sample()?, model.sort, String::new());
                    }
                }
                Action::Close => (open, source.sites) = (None, None),
                Action::None => {}
            },
            Woken::Due => {
                next = Instant::now() + interval;
                if !shown.paused {
                    model.add(source.sample()?);
                }
            }
        }
    }
}

/// What a key asks for, beside changes of the model.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    None,
    Quit,
    Open(String),
    Close,
}

/// Applies a key.
fn pressed(key: Key, model: &mut Model, shown: &mut Shown) -> Action {
    if key == Key::Ctrl('c') {
        return Action::Quit;
    }
    if shown.typing {
        match key {
            Key::Char('\n') => shown.typing = false,
            Key::Esc => {
                shown.typing = false;
                model.filter.clear();
            }
            Key::Backspace => _ = model.filter.pop(),
            Key::Char(c) => model.filter.push(c),
            _ => {}
        }
        model.selected = 0;
        return Action::None;
    }
    if let Some(text) = &shown.detail {
        let last = text.lines().count().saturating_sub(1);
        match key {
            Key::Char('q') => return Action::Quit,
            Key::Esc | Key::Left | Key::Char('\n') => return Action::Close,
            Key::Down | Key::Char('j') => shown.scrolled = (shown.scrolled + 1).min(last),
            Key::Up | Key::Char('k') => shown.scrolled = shown.scrolled.saturating_sub(1),
            Key::PageDown => shown.scrolled = (shown.scrolled + 20).min(last),
            Key::PageUp => shown.scrolled = shown.scrolled.saturating_sub(20),
            Key::Char(' ') => shown.paused = !shown.paused,
            _ => {}
        }
        return Action::None;
    }
    let rows = model.rows();
    let last = rows.len().saturating_sub(1);
    match key {
        Key::Char('q') => return Action::Quit,
        Key::Esc | Key::Left => return Action::Close,
        Key::Char('\n') => {
            return rows.get(model.selected.min(last)).map_or(Action::None, |row| Action::Open(row.item.name.clone()));
        }
        Key::Down | Key::Char('j') => model.selected = (model.selected + 1).min(last),
        Key::Up | Key::Char('k') => model.selected = model.selected.min(last).saturating_sub(1),
        Key::PageDown => model.selected = (model.selected + 20).min(last),
        Key::PageUp => model.selected = model.selected.saturating_sub(20),
        Key::Home => model.selected = 0,
        Key::End => model.selected = last,
        Key::Char('>') => model.sort = model.sort.moved(1),
        Key::Char('<') => model.sort = model.sort.moved(Column::ALL.len() - 1),
        Key::Char('r') => model.reversed = !model.reversed,
        Key::Char('m') => model.mark(),
        Key::Char(' ') => shown.paused = !shown.paused,
        Key::Char('/') => {
            shown.typing = true;
            model.filter.clear();
        }
        _ => {}
    }
    Action::None
}
