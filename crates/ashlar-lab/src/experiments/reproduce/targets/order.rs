//! The order of the columns in every row of every table: as in the mail, or not.
//!
//! Two figures are the same if they differ by no more than 5 %, which the mail of 2007 calls `=`.
//! So a pair of columns has one of three orders. It agrees if the order here is that of the mail.

use serde::{Deserialize, Serialize};

use crate::experiments::reproduce::plan::evidence::Evidence;
use crate::experiments::reproduce::plan::rows::{Column, Entry, Row, Rows};
use crate::kit::published::Published;
use crate::kit::rating::rating;

/// How a pair of columns came out in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Agreement {
    /// The order of the mail.
    Same,
    /// One of the two is a tie, and the other is none.
    Tie,
    /// The contrary.
    Opposite,
    NotMeasured,
}

/// Two columns in a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pair {
    pub(crate) over: String,
    pub(crate) under: String,
    /// The cost of `over` divided by that of `under`.
    pub(crate) published: f64,
    pub(crate) measured: Option<f64>,
    pub(crate) simulated: bool,
    pub(crate) agreement: Agreement,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RowOrder {
    pub(crate) test: String,
    pub(crate) row: String,
    pub(crate) pairs: Vec<Pair>,
    /// The mail's rating, where it has one, and that of the same two columns here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rating: Option<[String; 2]>,
}

/// A table, or two of which the one is compared with the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TableOrder {
    pub(crate) tables: String,
    pub(crate) rows: Vec<RowOrder>,
}

/// Counts of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) same: usize,
    pub(crate) tie: usize,
    pub(crate) opposite: usize,
    pub(crate) not_measured: usize,
    pub(crate) simulated: usize,
}

impl Count {
    pub(crate) fn of<'a>(pairs: impl Iterator<Item = &'a Pair>) -> Self {
        let mut count = Self::default();
        for pair in pairs {
            count.simulated += usize::from(pair.simulated && pair.measured.is_some());
            match pair.agreement {
                Agreement::Same => count.same += 1,
                Agreement::Tie => count.tie += 1,
                Agreement::Opposite => count.opposite += 1,
                Agreement::NotMeasured => count.not_measured += 1,
            }
        }
        count
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            same: self.same + other.same,
            tie: self.tie + other.tie,
            opposite: self.opposite + other.opposite,
            not_measured: self.not_measured + other.not_measured,
            simulated: self.simulated + other.simulated,
        }
    }

    pub(crate) fn measured(self) -> usize {
        self.same + self.tie + self.opposite
    }
}

impl TableOrder {
    /// Counts of all pairs.
    pub(crate) fn count(&self) -> Count {
        Count::of(self.rows.iter().flat_map(|row| &row.pairs))
    }

    /// Rows in which every pair that was measured agrees, and rows in which one was measured.
    pub(crate) fn rows_that_agree(&self) -> (usize, usize) {
        let counts = self.rows.iter().map(|row| Count::of(row.pairs.iter()));
        let measured: Vec<Count> = counts.filter(|count| count.measured() > 0).collect();
        (measured.iter().filter(|count| count.same == count.measured()).count(), measured.len())
    }

    /// The pairs of columns in their order, each with its counts.
    pub(crate) fn by_pair(&self) -> Vec<(String, Count)> {
        let mut names: Vec<(String, String)> = Vec::new();
        let all = || self.rows.iter().flat_map(|row| &row.pairs);
        for pair in all() {
            let name = (pair.over.clone(), pair.under.clone());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let count = |(over, under): (String, String)| {
            let count = Count::of(all().filter(|pair| (&pair.over, &pair.under) == (&over, &under)));
            (format!("{over} / {under}"), count)
        };
        names.into_iter().map(count).collect()
    }

    /// Of the rows that the mail rates and that were measured, those with the same sign here.
    pub(crate) fn ratings(&self) -> Option<(usize, usize)> {
        let rated: Vec<&[String; 2]> = self.rows.iter().filter_map(|row| row.rating.as_ref()).collect();
        let same = rated.iter().filter(|[mail, here]| sign(mail) == sign(here)).count();
        (!rated.is_empty()).then_some((same, rated.len()))
    }
}

/// `2 *` and `> 10 *` are better, as `+` is.
fn sign(rating: &str) -> char {
    rating.chars().next().filter(|sign| matches!(sign, '-' | '=')).unwrap_or('+')
}

/// All tables, in the order of the mails.
pub(crate) fn check(rows: &Rows, data: &Published, evidence: &Evidence) -> Vec<TableOrder> {
    let mut tables: Vec<TableOrder> = Vec::new();
    for entry in &rows.entries {
        let found = entry.rows(data).iter().map(|row| of_row(entry, row, data, evidence)).collect();
        match tables.iter_mut().find(|table| table.tables == entry.tables) {
            Some(table) => table.rows.extend::<Vec<RowOrder>>(found),
            None => tables.push(TableOrder { tables: entry.tables.clone(), rows: found }),
        }
    }
    tables
}

fn of_row(entry: &Entry, row: &Row, data: &Published, evidence: &Evidence) -> RowOrder {
    let mut pairs = Vec::new();
    for (at, over) in entry.columns.iter().enumerate() {
        for under in &entry.columns[at + 1..] {
            pairs.extend(of_pair(entry, row, [over, under], data, evidence));
        }
    }
    let rated = entry.rated.as_ref().filter(|_| !row.rating.is_empty()).and_then(|rated| {
        let column = |name: &String| entry.columns.iter().find(|column| column.column == *name);
        let (_, [base, ours], _) = measured(entry, row, [column(&rated[0])?, column(&rated[1])?], evidence)?;
        Some([row.rating.clone(), rating(ours, base)])
    });
    RowOrder { test: row.test.clone(), row: row.name.clone(), pairs, rating: rated }
}

/// The first place that has both columns: its run, the figures, and whether one is simulated.
fn measured<'a>(
    entry: &'a Entry,
    row: &Row,
    columns: [&Column; 2],
    evidence: &Evidence,
) -> Option<(&'a str, [f64; 2], bool)> {
    entry.from.iter().find_map(|from| {
        let [(over, one), (under, other)] =
            [entry.measured(columns[0], row, from, evidence)?, entry.measured(columns[1], row, from, evidence)?];
        Some((&*from.run, [over, under], one || other))
    })
}

fn of_pair(
    entry: &Entry,
    row: &Row,
    [over, under]: [&Column; 2],
    data: &Published,
    evidence: &Evidence,
) -> Option<Pair> {
    let published = entry.published(over, row, data)? / entry.published(under, row, data)?;
    let found =
        measured(entry, row, [over, under], evidence).map(|(_, [over, under], simulated)| (over / under, simulated));
    // A quotient's order: 0 stands for the same.
    let order = |quotient: f64| match quotient.ln() {
        log if log.abs() <= (1.0 + entry.equal()).ln() + 1e-9 => 0i8,
        log if log > 0.0 => 1,
        _ => -1,
    };
    let agreement = match found.map(|(quotient, _)| order(published) * order(quotient)) {
        None => Agreement::NotMeasured,
        Some(1) => Agreement::Same,
        Some(-1) => Agreement::Opposite,
        Some(_) if found.is_some_and(|(quotient, _)| order(quotient) == order(published)) => Agreement::Same,
        Some(_) => Agreement::Tie,
    };
    Some(Pair {
        over: over.name().to_owned(),
        under: under.name().to_owned(),
        published,
        measured: found.map(|(quotient, _)| quotient),
        simulated: found.is_some_and(|(_, simulated)| simulated),
        agreement,
    })
}

#[cfg(test)]
mod tests;
