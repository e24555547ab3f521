//! Standard output of the tool.

use std::io::{ErrorKind, Write, stdout};

use crate::error::ToolError;

/// Writes to standard output. A reader that went away (`ashlar compare … | head`) is no error.
pub fn print(text: &str) -> Result<(), ToolError> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(ToolError::Failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
