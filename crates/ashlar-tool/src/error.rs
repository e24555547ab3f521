//! The error type of the tool, and the exit code of each kind.

use core::fmt;

/// Why the tool did not succeed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolError {
    /// Bad input: names the option and what was expected. Exit code 2, as clap's own errors.
    Usage(String),
    /// The run itself failed. Exit code 1.
    Failed(String),
    /// There is no such program. Exit code 127, as a shell's.
    NotFound(String),
}

impl ToolError {
    /// Returns an error about the value of `option`.
    pub fn option(option: &str, message: impl fmt::Display) -> Self {
        Self::Usage(format!("{option}: {message}"))
    }

    /// Returns the exit code that stands for this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::NotFound(_) => 127,
            Self::Failed(_) => 1,
        }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::NotFound(message) | Self::Failed(message) => f.write_str(message),
        }
    }
}

impl core::error::Error for ToolError {}
