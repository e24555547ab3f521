//! `ashlar report --html`: a page about the memory of a process. One file that needs nothing else,
//! for a phone as well as for a desk, light or dark as the reader has it.
//!
//! * [`story`]: what the page is about. [`regions`]: what memory is divided into.
//! * [`treemap`], [`chart`], [`flame`]: draw. [`sections`]: the parts of the page.
//! * [`crate::style`] and `style.css` colour and lay out. `flame.js` makes the flame graph answer
//!   to clicks; without it the page is whole.

mod chart;
mod flame;
mod html;
mod regions;
mod sections;
mod story;
#[cfg(test)]
mod tests;
mod treemap;

use std::path::Path;
use std::process::ExitCode;

use crate::args::ReportArgs;
use crate::error::ToolError;
use crate::output;
use crate::style::BASE;
use html::{Text, put};
use story::Story;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("flame.js");

/// Runs the command.
pub(crate) fn run(args: &ReportArgs) -> Result<ExitCode, ToolError> {
    let page = render(&Story::of(args)?);
    if args.html == Path::new("-") {
        output::print(&page)?;
    } else {
        std::fs::write(&args.html, page)
            .map_err(|error| ToolError::option("--html", format_args!("{}: {error}", args.html.display())))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a page of one moment alone.
#[cfg(feature = "fuzz")]
pub(super) fn of_report(report: &crate::observe::report::Report) -> String {
    render(&Story { samples: vec![report.clone()], profile: None, pins: None, notes: Vec::new() })
}

/// The whole page.
fn render(story: &Story) -> String {
    let now = story.now();
    let mut page = String::new();
    put!(
        &mut page,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\
         <link rel=\"icon\" href=\"data:,\"><title>{name} ({pid}): memory</title>\n<style>{BASE}{STYLE}</style></head><body>",
        name = Text(&now.name),
        pid = now.pid,
    );
    sections::head(&mut page, story);
    page += "<main>";
    sections::memory(&mut page, now);
    sections::growth(&mut page, story);
    sections::pinned(&mut page, story);
    sections::profile(&mut page, story);
    sections::caches(&mut page, now);
    page += "</main>";
    sections::foot(&mut page);
    put!(&mut page, "<script type=\"module\">\n{SCRIPT}</script></body></html>\n");
    page
}
