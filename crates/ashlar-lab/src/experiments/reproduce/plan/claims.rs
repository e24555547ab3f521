//! What the mails claim: `data/claims.json`, and the published figures that go with it.
//!
//! A claim is judged by one number: a quotient of two measured figures, or a difference in per
//! cent. The file says which, and by which rule; the published number is computed from
//! `data/published.json` in the same way.

use serde::{Deserialize, Serialize};

use crate::kit::published::Published;
use crate::kit::statistics::geometric_mean;
use crate::kit::table;

const DATA: &str = include_str!("../../../../data/claims.json");

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claims {
    #[expect(dead_code, reason = "for readers of the file")]
    about: String,
    pub(crate) claims: Vec<Claim>,
}

/// One claim of a mail.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claim {
    pub(crate) id: String,
    /// The mail, as `document` of its source in the published figures.
    pub(crate) seed: String,
    /// Tables that it is taken from; none for claims of the text.
    pub(crate) tables: Vec<String>,
    pub(crate) claim: String,
    /// The run that measures it; see `runs`.
    pub(crate) run: String,
    pub(crate) over: Option<Side>,
    pub(crate) under: Option<Side>,
    /// Bytes; the geometric mean over these is judged.
    pub(crate) sizes: Option<Vec<usize>>,
    pub(crate) difference: Option<Sides>,
    pub(crate) published: Option<Printed>,
    pub(crate) rule: Rule,
}

/// A measured figure: what is not given may be anything.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Side {
    pub(crate) test: String,
    pub(crate) system: String,
    pub(crate) cpus: Option<usize>,
    pub(crate) nodes: Option<usize>,
    pub(crate) phase: Option<String>,
    pub(crate) sizes: Option<Vec<usize>>,
    pub(crate) bulks: Option<Vec<usize>>,
    /// The run that has it, where that is not the claim's.
    pub(crate) run: Option<String>,
}

/// A difference of packet forwarding: `mode` against `base`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sides {
    pub(crate) system: String,
    pub(crate) mode: String,
    pub(crate) base: String,
}

/// The published number.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Printed {
    /// Of the text, or of several tables.
    Value { value: f64 },
    /// Of cells of tables.
    Quotient { over: Box<Cells>, under: Box<Cells> },
}

/// Cells of a column.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cells {
    pub(crate) table: String,
    column: String,
    sizes: Option<Vec<usize>>,
    labels: Option<Vec<String>>,
    /// Of cells that hold two figures.
    part: Option<String>,
}

/// What makes a claim true.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Rule {
    /// At least half of the published effect, by its logarithm, in its direction.
    Half,
    AtLeast(f64),
    AtMost(f64),
    /// A quotient of 1, up or down by this share.
    Equal(f64),
    /// A difference of no more per cent than this, up or down.
    Within(f64),
}

impl Claims {
    /// The claims of this build.
    pub(crate) fn load() -> Result<Self, String> {
        serde_json::from_str(DATA).map_err(|error| format!("the claims of this build: {error}"))
    }
}

impl Claim {
    /// Whether it is about a difference in per cent, and not a quotient.
    pub(crate) fn is_difference(&self) -> bool {
        self.difference.is_some()
    }

    /// The published number; `None` where the mail has none.
    pub(crate) fn published(&self, data: &Published) -> Option<f64> {
        match self.published.as_ref()? {
            Printed::Value { value } => Some(*value),
            Printed::Quotient { over, under } => {
                let sizes = self.sizes.as_deref();
                Some(over.mean(data, sizes)? / under.mean(data, sizes)?)
            }
        }
    }

    /// The bounds between which the number must be.
    pub(crate) fn bounds(&self, data: &Published) -> (f64, f64) {
        match self.rule {
            Rule::AtLeast(bound) => (bound, f64::INFINITY),
            Rule::AtMost(bound) => (f64::NEG_INFINITY, bound),
            Rule::Equal(share) => (1.0 / (1.0 + share), 1.0 + share),
            Rule::Within(percent) => (-percent, percent),
            Rule::Half => match self.published(data).map(f64::sqrt) {
                Some(bound) if bound < 1.0 => (f64::NEG_INFINITY, bound),
                Some(bound) => (bound, f64::INFINITY),
                // No number satisfies a rule without one; a test sees to it that there is none
                // such.
                None => (f64::INFINITY, f64::NEG_INFINITY),
            },
        }
    }

    /// The rule in words.
    pub(crate) fn wanted(&self, data: &Published) -> String {
        let unit = if self.is_difference() { " %" } else { "" };
        let number = |value: f64| table::number(value);
        match (self.rule, self.bounds(data)) {
            (Rule::Half, (_, most)) if most.is_finite() => {
                format!("at most {} (half of the published effect)", number(most))
            }
            (Rule::Half, (least, _)) => format!("at least {} (half of the published effect)", number(least)),
            (Rule::AtLeast(bound), _) => format!("at least {}{unit}", number(bound)),
            (Rule::AtMost(bound), _) => format!("at most {}{unit}", number(bound)),
            (Rule::Equal(_) | Rule::Within(_), (least, most)) => {
                format!("between {} and {}{unit}", number(least), number(most))
            }
        }
    }
}

impl Cells {
    /// Geometric mean over the rows asked for.
    pub(crate) fn mean(&self, data: &Published, sizes: Option<&[usize]>) -> Option<f64> {
        let table = data.tables.iter().find(|table| table.id == self.table)?;
        let part = self.part.as_deref();
        let figures: Vec<f64> = match (&self.labels, self.sizes.as_deref().or(sizes)) {
            (Some(labels), _) => {
                labels.iter().map(|label| table.labelled(&self.column, label, part)).collect::<Option<_>>()?
            }
            (None, Some(sizes)) => sizes.iter().filter_map(|&size| table.sized(&self.column, size, part)).collect(),
            (None, None) => Vec::new(),
        };
        (!figures.is_empty()).then(|| geometric_mean(&figures))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::experiments::reproduce::plan::runs;
    use crate::systems::SystemInfo;

    #[test]
    fn every_published_table_has_a_claim_and_no_claim_an_unknown_one() {
        let (claims, data) = (Claims::load().unwrap().claims, Published::load().unwrap());
        let known: BTreeSet<&str> = data.tables.iter().map(|table| table.id.as_str()).collect();
        let claimed: BTreeSet<&str> = claims.iter().flat_map(|claim| &claim.tables).map(String::as_str).collect();
        assert_eq!(claimed, known);
        let ids: BTreeSet<&str> = claims.iter().map(|claim| claim.id.as_str()).collect();
        assert_eq!(ids.len(), claims.len(), "an id is used twice");
        for seed in ["000", "001", "002", "003", "004"] {
            assert!(claims.iter().any(|claim| claim.seed == seed), "{seed}");
        }
    }

    #[test]
    fn every_claim_can_be_judged() {
        let (claims, data) = (Claims::load().unwrap().claims, Published::load().unwrap());
        for claim in &claims {
            let id = &claim.id;
            assert!(data.sources.iter().any(|source| source.document == claim.seed), "{id}: seed {}", claim.seed);
            assert!(runs::known(&claim.run), "{id}: no run {}", claim.run);
            assert_eq!(claim.over.is_some(), claim.under.is_some(), "{id}");
            assert_ne!(claim.over.is_some(), claim.difference.is_some(), "{id}: one way to measure it");
            let published = claim.published(&data);
            assert_eq!(published.is_some(), claim.published.is_some(), "{id}: the published cells are not there");
            assert!(claim.tables.is_empty() || published.is_some(), "{id}: a table and no published number");
            let (least, most) = claim.bounds(&data);
            assert!(least < most, "{id}: {least} to {most}");
            for side in claim.over.iter().chain(&claim.under) {
                assert!(SystemInfo::by_id(&side.system).is_some(), "{id}: no system {}", side.system);
                assert!(side.run.as_deref().is_none_or(runs::known), "{id}: no run {:?}", side.run);
            }
        }
    }

    /// What the mails printed is true of the mails: each claim holds for its own published number.
    #[test]
    fn every_claim_is_true_where_it_was_made() {
        let (claims, data) = (Claims::load().unwrap().claims, Published::load().unwrap());
        for claim in &claims {
            let Some(published) = claim.published(&data) else { continue };
            let (least, most) = claim.bounds(&data);
            // 9.13 and 13.1 % are told as `nine` and `13 %`.
            assert!((least * 0.99..=most * 1.01).contains(&published), "{}: {published} in {least}..{most}", claim.id);
        }
    }

    #[test]
    fn published_numbers_are_what_the_mails_print() {
        let (claims, data) = (Claims::load().unwrap().claims, Published::load().unwrap());
        let of = |id: &str| claims.iter().find(|claim| claim.id == id).unwrap().published(&data).unwrap();
        let close =
            |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 0.001, "{found} and {expected}");
        close(of("000-A-pages"), 342.0 / 1254.0);
        close(of("002-parallel-alloc"), 116.0 / 99.0);
        close(of("002-parallel-free"), 147.0 / 139.0);
        close(of("004-B-seg"), 263.9 / 28.896);
        close(of("004-A-cache"), 7836.0 / 8544.0);
        // Ranges count by their middle.
        close(of("000-C-pair"), 70.0 / 151.0);
    }
}
