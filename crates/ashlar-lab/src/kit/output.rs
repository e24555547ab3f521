//! Standard output, and the files that a run writes.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::kit::error::LabError;

/// Opens an output of a run.
pub(crate) fn create(option: &str, path: &Path) -> Result<File, LabError> {
    File::create(path).map_err(|error| {
        LabError::option(option, format_args!("cannot write {}: {error}; expected a path to a file", path.display()))
    })
}

/// Writes to standard output. A reader that went away (`ashlar bench | head`) is no error.
pub(crate) fn print(text: &str) -> Result<(), LabError> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(LabError::Failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
