//! The report as parts of a Markdown document: `--markdown`.
//!
//! A part stands between the lines `<!-- reproduce NAME -->` and `<!-- end -->`. A document that is
//! there keeps everything outside of its parts, so people write the text between them. Another one
//! begins with all parts.

use core::fmt::Write as _;

use crate::experiments::reproduce::plan::claims::Kind;
use crate::experiments::reproduce::table::report::Report;
use crate::experiments::reproduce::table::{shown, shown_interval};
use crate::experiments::reproduce::targets::order::{Count, TableOrder};
use crate::experiments::reproduce::targets::{Judged, Verdict};

/// The names of the parts, in the order of a new document, each with its heading.
const PARTS: [(&str, &str); 6] = [
    ("machine", ""),
    ("verdicts", ""),
    ("claims", "## Claims of the mails"),
    ("apart", "## Counted apart"),
    ("figures", "## Not reproduced, open, or dependent, with the figures"),
    ("rows", "## Every row of every table"),
];
const TITLE: &str = "# What the mails claim, and what holds here";
const END: &str = "<!-- end -->";

fn begin(name: &str) -> String {
    format!("<!-- reproduce {name} -->")
}

/// The document `old` with the parts of `report`, or a new one. An error names what is wrong with
/// `old`.
pub(crate) fn render(report: &Report, old: Option<&str>) -> Result<String, String> {
    let empty = empty();
    with_parts(old.unwrap_or(&empty), |name| part(report, name))
}

/// Whether a document can take the parts.
pub(crate) fn check(old: &str) -> Result<(), String> {
    with_parts(old, |_| String::new()).map(|_| ())
}

fn with_parts(old: &str, part: impl Fn(&str) -> String) -> Result<String, String> {
    let (mut text, mut rest, mut found) = (String::with_capacity(old.len()), old, 0);
    while let Some(at) = rest.find("<!-- reproduce ") {
        let (before, from) = rest.split_at(at);
        let line = from.lines().next().unwrap_or_default();
        let name = PARTS.iter().find_map(|(name, _)| (line == begin(name)).then_some(*name));
        let name = name.ok_or_else(|| format!("no part `{line}`; the parts are {}", names()))?;
        let end = from.find(END).ok_or_else(|| format!("no line `{END}` after `{line}`"))?;
        let _ = write!(text, "{before}{line}\n{}", part(name));
        (rest, found) = (&from[end..], found + 1);
    }
    if found == 0 {
        return Err(format!("no line `{}`; the parts are {}", begin(PARTS[0].0), names()));
    }
    Ok(text + rest)
}

fn names() -> String {
    PARTS.map(|(name, _)| name).join(", ")
}

fn empty() -> String {
    let mut text = format!("{TITLE}\n");
    for (name, heading) in PARTS {
        let heading = if heading.is_empty() { String::new() } else { format!("{heading}\n\n") };
        let _ = write!(text, "\n{heading}{}\n{END}\n", begin(name));
    }
    text
}

fn part(report: &Report, name: &str) -> String {
    match name {
        "machine" => machine(report),
        "verdicts" => verdicts(report),
        "claims" => table_of_claims(report, &[Kind::Published]),
        "apart" => table_of_claims(report, &[Kind::Own, Kind::ByConstruction, Kind::Repeated]),
        "figures" => figures(report),
        _ => rows(&report.tables),
    }
}

fn machine(report: &Report) -> String {
    let machine = &report.machine;
    let processor = machine.processor.as_ref();
    let mut text = format!(
        "Machine: {} CPUs, {}",
        machine.cpus,
        processor.map_or_else(|| machine.cpu_model.clone(), ToString::to_string)
    );
    if let Some(processor) = processor {
        let caches = processor.caches.iter().map(|(name, size)| format!("{name} {size}"));
        let clock = processor.tsc_mhz.map(|mhz| format!("TSC {mhz:.0} MHz"));
        let facts: Vec<String> = caches.chain(clock).collect();
        if !facts.is_empty() {
            let _ = write!(text, ", {}", facts.join(", "));
        }
    }
    let seconds: f64 = report.runs.values().map(|run| run.seconds).sum();
    let _ = write!(
        text,
        ". Linux {}, glibc {}, sections by {}, ashlar {} ({}). ",
        machine.kernel, machine.glibc, machine.ashlar_mode, machine.ashlar_version, machine.build
    );
    let _ = writeln!(text, "The measurements took {:.0} minutes.", seconds / 60.0);
    if report.quick {
        text += "**A quick run: the measurements are too small to mean anything.**\n";
    }
    text
}

fn verdicts(report: &Report) -> String {
    let count = |verdict: Verdict| report.count(Kind::Published, verdict);
    let others = Verdict::ALL[1..].iter().filter(|verdict| count(**verdict) > 0);
    let others: Vec<String> = others.map(|verdict| format!("{}: {}", verdict.words(), count(*verdict))).collect();
    let mut text = format!(
        "**{} of {} claims of the mails are reproduced** ({}).\n",
        count(Verdict::Reproduced),
        report.of_kind(Kind::Published).count(),
        others.join(", ")
    );
    let all = report.tables.iter().fold(Count::default(), |all, table| all.plus(table.count()));
    if all.measured() > 0 {
        let _ = writeln!(
            text,
            "In the rows of the tables {} pairs of columns have the order of the mail.",
            share(all.same, all.measured())
        );
    }
    text
}

/// The text of a cell: a bar would end it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn marked(verdict: Verdict) -> String {
    match verdict {
        Verdict::NotReproduced => format!("**{}**", verdict.words()),
        Verdict::Fitted => format!("*{}*", verdict.words()),
        _ => verdict.words().to_owned(),
    }
}

fn table_of_claims(report: &Report, kinds: &[Kind]) -> String {
    let mut text = String::from("| claim | | published | found | |\n|---|---|---|---|---|\n");
    for kind in kinds {
        if kinds.len() > 1 {
            let _ = writeln!(text, "| | **Claims {}** | | | |", kind.words());
        }
        for claim in report.of_kind(*kind) {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} |",
                claim.id,
                cell(&claim.claim),
                shown(claim, claim.published),
                found(claim),
                marked(claim.verdict)
            );
        }
    }
    text
}

fn found(claim: &Judged) -> String {
    let parts = [shown(claim, claim.measured), shown_interval(claim)];
    let simulated = if claim.simulated { "*simulated*" } else { "" };
    let page = claim.page.map_or_else(String::new, |page| format!("*{} KiB pages*", page >> 10));
    let parts = parts.iter().map(String::as_str).chain([simulated, &*page]).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(" ")
}

fn figures(report: &Report) -> String {
    let mut text = String::new();
    for claim in report.claims.iter().filter(|claim| claim.verdict != Verdict::Reproduced) {
        let _ = writeln!(text, "- **{}** ({}): {}.", claim.id, claim.verdict.words(), claim.reason);
    }
    text
}

fn share(part: usize, of: usize) -> String {
    format!("{part} of {of} ({:.0} %)", 100.0 * part as f64 / of as f64)
}

fn rows(tables: &[TableOrder]) -> String {
    let mut text = String::from(
        "| tables | pairs | as in the mail | tie in one alone | opposite | simulated | rows in which all agree | ratings | pairs that agree, by columns |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    let mut all = Count::default();
    let (mut agree, mut measured, mut same, mut rated) = (0, 0, 0, 0);
    for table in tables {
        let (count, rows, ratings) = (table.count(), table.rows_that_agree(), table.ratings());
        all = all.plus(count);
        (agree, measured) = (agree + rows.0, measured + rows.1);
        let (good, of) = ratings.unwrap_or((0, 0));
        (same, rated) = (same + good, rated + of);
        let by_pair = table.by_pair();
        let by_pair = by_pair.iter().filter(|(_, count)| by_pair.len() > 1 && count.measured() > 0);
        let by_pair: Vec<String> =
            by_pair.map(|(pair, count)| format!("{pair} {} of {}", count.same, count.measured())).collect();
        line(&mut text, &table.tables, count, rows, (good, of), &by_pair.join("; "));
    }
    line(&mut text, "**all**", all, (agree, measured), (same, rated), "");
    if all.not_measured > 0 {
        let _ = writeln!(text, "\n{} pairs were not measured.", all.not_measured);
    }
    text
}

fn line(text: &mut String, name: &str, count: Count, rows: (usize, usize), ratings: (usize, usize), by_pair: &str) {
    let of = |(part, of): (usize, usize)| if of > 0 { format!("{part} of {of}") } else { String::new() };
    let simulated = if count.simulated > 0 { count.simulated.to_string() } else { String::new() };
    let same = if count.measured() > 0 {
        format!("{} ({:.0} %)", count.same, 100.0 * count.same as f64 / count.measured() as f64)
    } else {
        "-".to_owned()
    };
    let _ = writeln!(
        text,
        "| {name} | {} | {same} | {} | {} | {simulated} | {} | {} | {by_pair} |",
        count.measured(),
        count.tie,
        count.opposite,
        of(rows),
        of(ratings)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::reproduce::table::page::tests::report;

    #[test]
    fn a_new_document_has_every_claim_and_every_table() {
        let (report, _) = report();
        let text = render(&report, None).unwrap();
        for claim in &report.claims {
            assert!(text.contains(&format!("| {} | {} |", claim.id, claim.claim)), "{}", claim.id);
        }
        for table in &report.tables {
            assert!(text.contains(&format!("\n| {} |", table.tables)), "{}", table.tables);
        }
        let open = report.claims.iter().filter(|claim| claim.verdict != Verdict::Reproduced);
        for claim in open {
            assert!(text.contains(&format!("- **{}** (", claim.id)), "{}", claim.id);
        }
    }

    #[test]
    fn a_document_keeps_what_is_outside_of_its_parts() {
        let (report, _) = report();
        let old = "# Mine\n\n<!-- reproduce verdicts -->\nold\n<!-- end -->\n\nText, 3 of 4.\n";
        let text = render(&report, Some(old)).unwrap();
        assert!(text.starts_with("# Mine\n\n<!-- reproduce verdicts -->\n**"), "{text}");
        assert!(text.ends_with("<!-- end -->\n\nText, 3 of 4.\n") && !text.contains("old"), "{text}");
        // The same report again changes nothing.
        assert_eq!(render(&report, Some(&text)).unwrap(), text);
    }

    #[test]
    fn a_document_without_a_known_part_is_refused() {
        let (report, _) = report();
        for (old, named) in [
            ("# Mine\n", "no line `<!-- reproduce machine -->`"),
            ("<!-- reproduce verdict -->\n<!-- end -->\n", "no part `<!-- reproduce verdict -->`"),
            ("<!-- reproduce verdicts -->\n", "no line `<!-- end -->`"),
        ] {
            let error = render(&report, Some(old)).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
