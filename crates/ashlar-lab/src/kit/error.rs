//! The one error type of the lab, and the exit code of each kind.

use core::fmt;

use ashlar_tool::error::ToolError;

/// The program, as each of its errors begins.
pub(crate) const NAME: &str = "ashlar-lab";

/// Why the lab did not succeed.
#[derive(Debug)]
pub(crate) enum LabError {
    /// Bad input: names the option and what was expected. Exit code 2, as clap's own errors.
    Usage(String),
    /// The run itself failed. Exit code 1.
    Failed(String),
    /// The run is complete and printed, but not every target was met. Exit code 1, nothing more to
    /// say.
    TargetsMissed,
}

impl LabError {
    /// An error about the value of `option`.
    pub(crate) fn option(option: &str, message: impl fmt::Display) -> Self {
        Self::Usage(format!("{option}: {message}"))
    }

    /// Several errors of a run that went on after each, one a line. There is at least one.
    pub(crate) fn several(failures: &[String]) -> Self {
        Self::Failed(failures.join(&format!("\n{NAME}: ")))
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Failed(_) | Self::TargetsMissed => 1,
        }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Failed(message) => f.write_str(message),
            Self::TargetsMissed => f.write_str("not every target was met"),
        }
    }
}

impl From<ToolError> for LabError {
    fn from(error: ToolError) -> Self {
        let text = error.to_string();
        if error.exit_code() == 2 { Self::Usage(text) } else { Self::Failed(text) }
    }
}
