//! `ashlar top`: rates and growth of a process's caches, or of all processes, as they happen.

mod model;
#[cfg(test)]
mod tests;
mod view;

use core::time::Duration;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::time::Instant;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use model::{Model, Sample};
use view::Screen;

use super::report::Report;
use super::{info, ps, text};
use crate::args::{Column, TopArgs};
use crate::error::ToolError;
use crate::output;

/// Where the samples come from.
struct Source {
    /// The process; `None` for all.
    pid: Option<i32>,
    reports: Vec<Report>,
}

impl Source {
    fn sample(&mut self) -> Result<Sample, ToolError> {
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

    /// All figures of the cache of a row.
    fn detail(&self, name: &str) -> Option<String> {
        let report = self.reports.first()?;
        let mut caches =
            report.allocators.iter().flat_map(|allocator| allocator.caches.iter().map(move |cache| (allocator, cache)));
        let (allocator, cache) = caches.find(|(_, cache)| Some(cache.name.as_str()) == name.split('#').next())?;
        Some(text::cache(report, allocator, cache))
    }
}

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> Result<ExitCode, ToolError> {
    let mut source = Source { pid: args.pid, reports: Vec::new() };
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
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let outcome = watch(&mut terminal, &mut source, &mut model, interval);
    ratatui::restore();
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
fn watch(
    terminal: &mut DefaultTerminal,
    source: &mut Source,
    model: &mut Model,
    interval: Duration,
) -> Result<(), ToolError> {
    let failed = |error: std::io::Error| ToolError::Failed(format!("terminal: {error}"));
    let mut screen = Screen::default();
    let mut shown = None;
    let mut next = Instant::now() + interval;
    loop {
        screen.head = source.head(model);
        screen.detail = shown.as_deref().and_then(|name| source.detail(name));
        terminal.draw(|frame| view::draw(frame, model, &screen)).map_err(failed)?;
        if event::poll(next.saturating_duration_since(Instant::now())).map_err(failed)? {
            if let Event::Key(key) = event::read().map_err(failed)? {
                match pressed(key, model, &mut screen) {
                    Action::Quit => return Ok(()),
                    Action::Open(name) if source.pid.is_some() => shown = Some(name),
                    Action::Open(_) => {
                        // A process of the list becomes the one that is watched.
                        let row = model.rows().into_iter().nth(model.selected);
                        if let Some(pid) = row.and_then(|row| row.item.pid) {
                            source.pid = Some(pid);
                            *model = Model::new(source.sample()?, model.sort, String::new());
                        }
                    }
                    Action::Close => shown = None,
                    Action::None => {}
                }
            }
            continue;
        }
        next = Instant::now() + interval;
        if !screen.paused {
            model.add(source.sample()?);
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
fn pressed(key: KeyEvent, model: &mut Model, screen: &mut Screen) -> Action {
    if key.kind == KeyEventKind::Release {
        return Action::None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
        return Action::Quit;
    }
    if screen.typing {
        match key.code {
            KeyCode::Enter => screen.typing = false,
            KeyCode::Esc => {
                screen.typing = false;
                model.filter.clear();
            }
            KeyCode::Backspace => _ = model.filter.pop(),
            KeyCode::Char(c) => model.filter.push(c),
            _ => {}
        }
        model.selected = 0;
        return Action::None;
    }
    let rows = model.rows();
    let last = rows.len().saturating_sub(1);
    match key.code {
        KeyCode::Char('q') => return Action::Quit,
        KeyCode::Esc | KeyCode::Left => return Action::Close,
        KeyCode::Enter => {
            return rows.get(model.selected.min(last)).map_or(Action::None, |row| Action::Open(row.item.name.clone()));
        }
        KeyCode::Down | KeyCode::Char('j') => model.selected = (model.selected + 1).min(last),
        KeyCode::Up | KeyCode::Char('k') => model.selected = model.selected.min(last).saturating_sub(1),
        KeyCode::PageDown => model.selected = (model.selected + 20).min(last),
        KeyCode::PageUp => model.selected = model.selected.saturating_sub(20),
        KeyCode::Home => model.selected = 0,
        KeyCode::End => model.selected = last,
        KeyCode::Char('>') => model.sort = model.sort.moved(1),
        KeyCode::Char('<') => model.sort = model.sort.moved(Column::ALL.len() - 1),
        KeyCode::Char('r') => model.reversed = !model.reversed,
        KeyCode::Char('m') => model.mark(),
        KeyCode::Char(' ') => screen.paused = !screen.paused,
        KeyCode::Char('/') => {
            screen.typing = true;
            model.filter.clear();
        }
        _ => {}
    }
    Action::None
}
