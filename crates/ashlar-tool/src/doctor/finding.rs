//! [`Finding`]: what a check says of one thing.

use serde::Serialize;

/// How good something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Note,
    /// In the way.
    Problem,
}

/// What was found about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: &'static str,
    pub(crate) state: State,
    pub(crate) value: String,
    /// What to do; empty if nothing.
    pub(crate) advice: String,
}

impl Finding {
    pub(crate) fn ok(name: &'static str, value: impl Into<String>) -> Finding {
        Finding { name, state: State::Ok, value: value.into(), advice: String::new() }
    }

    pub(crate) fn note(name: &'static str, value: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { name, state: State::Note, value: value.into(), advice: advice.into() }
    }

    pub(crate) fn problem(name: &'static str, value: impl Into<String>, advice: impl Into<String>) -> Finding {
        Finding { name, state: State::Problem, value: value.into(), advice: advice.into() }
    }
}
