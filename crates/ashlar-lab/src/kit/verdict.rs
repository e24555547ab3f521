//! What the targets of an experiment say about a run.

/// The verdict and the text that explains it.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) passed: bool,
    pub(crate) text: String,
}
