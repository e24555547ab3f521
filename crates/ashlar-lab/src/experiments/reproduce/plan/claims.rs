//! What the mails claim: `data/claims.json`, and the published figures that go with it.
//!
//! A claim is judged by one number: a quotient of two measured figures, or a difference in per
//! cent. The file says which, and by which rule; the published number is computed from
//! `data/published.json` in the same way.
//!
//! One rule holds for all: the bound that the mail states, else at least half of the published
//! effect, by its logarithm, in its direction. What a mail calls the same is within 5 %, as the
//! mail of 2007 uses its `=`. Bounds of claims that no mail makes are ours; these count apart.

use serde::{Deserialize, Serialize};

use crate::kit::published::Published;
use crate::kit::rating::EQUAL;
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
    #[serde(default)]
    kind: Kind,
    /// The claim whose figures this one repeats.
    pub(crate) repeats: Option<String>,
    /// What it rests on beside the measurement.
    pub(crate) fitted: Option<Fitted>,
}

/// Whose claim it is, and whether it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Of a mail. These are counted.
    #[default]
    Published,
    /// Of this project.
    Own,
    /// It cannot fail, because of how the engines or the model are built.
    ByConstruction,
    /// Another claim has the same figures.
    Repeated,
}

/// A parameter that the mail does not tell, and that was chosen here.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fitted {
    pub(crate) parameter: String,
    /// Runs with other values of it, beside the claim's own.
    pub(crate) runs: Vec<String>,
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
    /// A quotient of 1, or a difference of nothing, up or down by what a mail calls the same.
    Same,
    /// A difference of no more per cent than this, up or down.
    Within(f64),
}

impl Claims {
    /// The claims of this build.
    pub(crate) fn load() -> Result<Self, String> {
        serde_json::from_str(DATA).map_err(|error| format!("the claims of this build: {error}"))
    }
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Published, Self::Own, Self::ByConstruction, Self::Repeated];

    /// What is counted, in words.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Published => "claims",
            Self::Own => "of our own",
            Self::ByConstruction => "that cannot fail by construction",
            Self::Repeated => "that repeat the figures of another",
        }
    }
}

impl Claim {
    pub(crate) fn kind(&self) -> Kind {
        if self.repeats.is_some() { Kind::Repeated } else { self.kind }
    }

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
            Rule::Same => (1.0 / (1.0 + EQUAL), 1.0 + EQUAL),
            Rule::Within(percent) => (-percent, percent),
            // No number satisfies the rule without a published one; a test sees to it that there
            // is always one.
            Rule::Half => self.published(data).map_or((f64::INFINITY, f64::NEG_INFINITY), |published| {
                let percent = self.is_difference();
                let quotient = if percent { 1.0 + published / 100.0 } else { published };
                let bound = if percent { (quotient.sqrt() - 1.0) * 100.0 } else { quotient.sqrt() };
                if quotient < 1.0 { (f64::NEG_INFINITY, bound) } else { (bound, f64::INFINITY) }
            }),
        }
    }

    /// The rule in words.
    pub(crate) fn wanted(&self, data: &Published) -> String {
        let unit = if self.is_difference() { " %" } else { "" };
        let number = |value: f64| table::number(value);
        match (self.rule, self.bounds(data)) {
            (Rule::Half, (_, most)) if most.is_finite() => {
                format!("at most {}{unit} (half of the published effect)", number(most))
            }
            (Rule::Half, (least, _)) => format!("at least {}{unit} (half of the published effect)", number(least)),
            (Rule::AtLeast(bound), _) => format!("at least {}{unit}", number(bound)),
            (Rule::AtMost(bound), _) => format!("at most {}{unit}", number(bound)),
            (Rule::Same | Rule::Within(_), (least, most)) => {
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
            for run in claim.fitted.iter().flat_map(|fitted| &fitted.runs) {
                assert!(runs::known(run) && *run != claim.run, "{id}: the other run {run}");
            }
            if let Some(of) = &claim.repeats {
                let of = claims.iter().find(|other| other.id == *of);
                assert!(of.is_some_and(|of| of.kind() == Kind::Published), "{id}: what it repeats");
            }
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

    /// The bounds that a mail states in words. All other claims of mails follow one of two rules.
    #[test]
    fn a_claim_of_a_mail_has_no_bound_of_ours() {
        let (claims, data) = (Claims::load().unwrap().claims, Published::load().unwrap());
        let stated = [
            ("000-D-contention", Rule::AtLeast(6.0)),
            ("000-idea-1", Rule::AtMost(0.7)),
            ("001-nomerge", Rule::Within(0.61)),
            ("001-tuned", Rule::Within(0.61)),
            // A direction alone.
            ("001-detached", Rule::AtMost(1.0)),
            ("003-text", Rule::AtLeast(1.4)),
            ("004-B-seg", Rule::AtLeast(9.0)),
            ("004-B-cache", Rule::AtLeast(9.0)),
            // `Very comparable`: not above what a mail calls the same.
            ("004-slub-memory", Rule::AtMost(1.05)),
        ];
        for claim in claims.iter().filter(|claim| matches!(claim.kind(), Kind::Published | Kind::Repeated)) {
            match stated.iter().find(|(id, _)| *id == claim.id) {
                Some((_, rule)) => assert_eq!(claim.rule, *rule, "{}", claim.id),
                None => assert!(matches!(claim.rule, Rule::Half | Rule::Same), "{}: {:?}", claim.id, claim.rule),
            }
        }
        let half = |id: &str| claims.iter().find(|claim| claim.id == id).unwrap().bounds(&data);
        // 2.05 % is a quotient of 1.0205, whose root is 1.0102.
        assert!((half("001-bulk").0 - 1.0198).abs() < 1e-3, "{:?}", half("001-bulk"));
        assert!((half("004-A-seg").0 - (8976.0f64 / 7936.0).sqrt()).abs() < 1e-9);
        assert!((half("004-A-cache").1 - (7836.0f64 / 8544.0).sqrt()).abs() < 1e-9);
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
