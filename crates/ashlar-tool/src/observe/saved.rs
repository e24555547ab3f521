//! Reads files of `ashlar info --save`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::report::{FORM, Report};
use crate::error::ToolError;

/// The most bytes of a file.
const MOST_BYTES: u64 = 256 << 20;

/// Reads the only report of a file. `which` names the argument.
pub(super) fn one(which: &str, path: &Path) -> Result<Report, ToolError> {
    let mut reports = series(which, path)?;
    match (reports.pop(), reports.len()) {
        (Some(report), 0) => Ok(report),
        (_, more) => {
            let count = more + 1;
            Err(ToolError::option(which, format_args!("{}: has {count} snapshots, expected one", path.display())))
        }
    }
}

/// Reads all reports of a file, one at least: several may stand behind one another.
pub(super) fn series(which: &str, path: &Path) -> Result<Vec<Report>, ToolError> {
    let fail = |message: String| ToolError::option(which, format_args!("{}: {message}", path.display()));
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut text));
    read.map_err(|error| fail(error.to_string()))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(fail("expected at most 256 MiB".to_owned()));
    }
    let reports = serde_json::Deserializer::from_slice(&text).into_iter::<Report>();
    let reports: Vec<Report> = reports
        .collect::<Result<_, _>>()
        .map_err(|error| fail(format!("not a file of `ashlar info --save`: {error}")))?;
    if reports.is_empty() {
        return Err(fail("not a file of `ashlar info --save`: it is empty".to_owned()));
    }
    match reports.iter().find(|report| report.form != FORM || !report.time.is_finite()) {
        Some(report) => Err(fail(format!("has form {}, expected {FORM}", report.form))),
        None => Ok(reports),
    }
}
