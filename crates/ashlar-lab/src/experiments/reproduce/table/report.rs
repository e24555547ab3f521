//! Everything that `--json` writes.

use serde::{Deserialize, Serialize};

use crate::experiments::reproduce::plan::claims::Kind;
use crate::experiments::reproduce::plan::evidence::Evidence;
use crate::experiments::reproduce::targets::order::TableOrder;
use crate::experiments::reproduce::targets::{Judged, Verdict};
use crate::kit::machine::Processor;

/// The machine of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu_model: String,
    /// Absent in reports of before it was told.
    #[serde(default)]
    pub(crate) processor: Option<Processor>,
    pub(crate) cpus: usize,
    pub(crate) kernel: String,
    pub(crate) glibc: String,
    pub(crate) ashlar_version: String,
    pub(crate) ashlar_mode: String,
    pub(crate) build: String,
}

/// Everything that `--json` writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    /// The measurements were too small to mean anything.
    pub(crate) quick: bool,
    pub(crate) claims: Vec<Judged>,
    /// The order of the columns in every row of the mails' tables.
    #[serde(default)]
    pub(crate) tables: Vec<TableOrder>,
    /// What was measured, by the name of the run.
    pub(crate) runs: Evidence,
}

impl Report {
    /// Claims of a kind with a verdict.
    pub(crate) fn count(&self, kind: Kind, verdict: Verdict) -> usize {
        self.of_kind(kind).filter(|claim| claim.verdict == verdict).count()
    }

    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Judged> {
        self.claims.iter().filter(move |claim| claim.kind == kind)
    }
}
