//! The report as a page: one file that needs nothing else, for a phone as well as for a desk, light
//! or dark as the reader has it.
//!
//! [`charts`] draws, the tool's `base.css` and `style.css` colour and lay out, [`figures`] finds
//! the figures. There is no script.

mod charts;
mod figures;

use ashlar_tool::style::BASE;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::experiments::reproduce::plan::claims::Kind;
use crate::experiments::reproduce::table::page::figures::Figure;
use crate::experiments::reproduce::table::report::Report;
use crate::experiments::reproduce::table::{counts, shown, shown_interval, summary};
use crate::experiments::reproduce::targets::{Judged, Verdict};
use crate::kit::published::Published;
use crate::kit::table::number;

const STYLE: &str = include_str!("style.css");

/// Names of the colours of series in the style sheet.
const COLOURS: [&str; charts::SERIES.len()] = ["--s0", "--s1", "--s2", "--s3", "--s4", "--s5"];

/// What the mails are about.
const MAILS: [(&str, &str); 5] = [
    ("000", "SLUB's SMP regression tests and performance patches"),
    ("001", "slab_nomerge and bulk free under packet forwarding"),
    ("002", "cmpxchg_local, emulated on IA64"),
    ("003", "A partially lockless slow path of frees"),
    ("004", "More deterministic SLOB, by segregated lists"),
];

/// The class of a verdict, and its key in the JSON.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::NotReproduced => "not-reproduced",
        Verdict::Open => "open",
        Verdict::Fitted => "fitted",
        Verdict::NotComparable => "not-comparable",
        Verdict::NotMeasured => "not-measured",
    }
}

/// Each verdict has a sign as well, for who does not see its colour.
fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "✓",
        Verdict::NotReproduced => "✗",
        Verdict::Open => "?",
        Verdict::Fitted => "±",
        Verdict::NotComparable => "≠",
        Verdict::NotMeasured => "–",
    }
}

/// The whole page.
pub(crate) fn render(report: &Report, data: &Published) -> Result<String, Box<dyn core::error::Error>> {
    let machine = &report.machine;
    let all = report.of_kind(Kind::Published).count();
    let count = |verdict: Verdict| report.count(Kind::Published, verdict);
    let figures = figures::all(report, data)?;
    let of_kind = |kind: figures::Kind| figures.iter().filter(move |figure| figure.kind == kind);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // Without one a browser asks the server for a picture.
                link rel="icon" href="data:,";
                title { "ashlar reproduce" }
                style { (PreEscaped(style())) }
            }
            body {
                header {
                    h1 { "What five mails on slab allocators claim, and what holds here" }
                    p.soft {
                        "ashlar " (machine.ashlar_version) " on " (machine.cpus) " CPUs, "
                        (machine.processor.as_ref().map_or_else(|| machine.cpu_model.clone(), ToString::to_string)) ", Linux " (machine.kernel)
                        ", glibc " (machine.glibc) "; CPU-local sections by " (machine.ashlar_mode) "; " (machine.build) "."
                    }
                    @if report.quick {
                        p.warn { "A quick run: the measurements are too small to mean anything." }
                    }
                    ul.score {
                        @for verdict in Verdict::ALL {
                            li { b class=(class(verdict)) { (count(verdict)) } (verdict.words()) }
                        }
                    }
                    div.bar role="img" aria-label=(summary(report)) {
                        @for verdict in Verdict::ALL {
                            i class=(class(verdict)) style=(format!("width:{:.2}%", 100.0 * count(verdict) as f64 / all.max(1) as f64)) {}
                        }
                    }
                    @for kind in &Kind::ALL[1..] {
                        p.small.soft { "Apart: " (counts(report, *kind)) "." }
                    }
                }
                main {
                    h2 { "Tests A to F" }
                    p.soft {
                        "Cycles for one operation, axes by powers of ten. Above what the mail of 2007 printed of other machines, below the same here: compare shapes, not heights. "
                        "Frees of test F are divided by seven in the mail's figures, which most likely stand for seven objects."
                    }
                    div.charts { @for figure in of_kind(figures::Kind::Tests) { (show(figure)) } }
                    h2 { "hackbench and packet forwarding" }
                    div.charts { @for figure in of_kind(figures::Kind::Programs) { (show(figure)) } }
                    @if of_kind(figures::Kind::Programs).next().is_none() {
                        p.soft { "Neither was measured in this run." }
                    }
                    h2 { "More CPUs than there are here" }
                    p.soft {
                        "Predictions of a discrete-event model, which is fed with locks, hold times and cache-line costs that were measured on two CPUs. "
                        "No machine was measured for them."
                    }
                    div.charts { @for figure in of_kind(figures::Kind::Simulated) { (show(figure)) } }
                    @if of_kind(figures::Kind::Simulated).next().is_none() {
                        p.soft { (figures::missing(report, "simulate")) }
                    }
                    @for (seed, title) in MAILS {
                        (mail(report, data, seed, title))
                    }
                    h2 { "Every row of every table" }
                    (orders(report))
                    h2 { "Runs" }
                    (runs(report))
                }
                footer {
                    p.small.soft {
                        "A claim is reproduced when the interval of its number, at 95 % over the rounds, is within the bound that the mail states, or else shows at least half of the published effect, by its logarithm, in the same direction. "
                        "It is open when the bound lies inside the interval, and depends on a fitted parameter when another value of what the mail does not tell gives another verdict. "
                        "A number is the geometric mean over the sizes named in its reason. Published figures are cycles of other machines and other kernels."
                    }
                }
            }
        }
    };
    Ok(page.into_string())
}

/// The style sheet, with the colours of the charts.
fn style() -> String {
    let mut text = [BASE, STYLE].concat();
    let rule = |key: u8, name: &str| {
        let colour = format!("#0102{key:02X}");
        format!("[fill=\"{colour}\"]{{fill:var({name})}}[stroke=\"{colour}\"]{{stroke:var({name})}}\n")
    };
    for (at, name) in COLOURS.iter().enumerate() {
        text += &rule(charts::SERIES[at].2, name);
    }
    text + &rule(charts::INK.2, "--soft") + &rule(charts::GRID.2, "--grid")
}

fn show(figure: &Figure) -> Markup {
    html! {
        figure {
            h3 { (figure.title) }
            ul.legend {
                @for (colour, name) in &figure.legend {
                    li { i style=(format!("background:var({})", COLOURS[*colour])) {} (name) }
                }
            }
            @for chart in &figure.charts {
                figcaption {
                    @if chart.simulated { span.simulated { "simulated " } }
                    (chart.caption)
                }
                @match &chart.svg {
                    Ok(svg) => (PreEscaped(svg)),
                    Err(reason) => p.soft { (reason) },
                }
            }
        }
    }
}

fn mail(report: &Report, data: &Published, seed: &str, title: &str) -> Markup {
    let date = data.sources.iter().find(|source| source.document == seed).map_or("", |source| source.date.as_str());
    html! {
        h2 { (title) }
        p.soft { "Mail " (seed) ", " (date) }
        div.cards { @for claim in report.claims.iter().filter(|claim| claim.seed == seed) { (card(claim)) } }
    }
}

fn card(claim: &Judged) -> Markup {
    html! {
        article.card id=(claim.id) {
            div.head {
                span.verdict.(class(claim.verdict)) { (sign(claim.verdict)) " " (claim.verdict.words()) }
                @if claim.simulated { span.tag.simulated { "simulated" } }
                @if let Some(page) = claim.page { span.tag { (page >> 10) " KiB pages" } }
                @if claim.kind != Kind::Published { span.tag { (claim.kind.words()) } }
                @if !claim.tables.is_empty() { span.tag { (claim.tables.join(", ")) } }
            }
            p { (claim.claim) }
            @if claim.published.is_some() || claim.measured.is_some() {
                div.numbers {
                    div { small { "published" } b { (shown(claim, claim.published)) } }
                    div { small { @if claim.simulated { "simulated" } @else { "measured" } } b class=(class(claim.verdict)) { (shown(claim, claim.measured)) } small { (shown_interval(claim)) } }
                }
                (scale(claim))
            }
            p.reason { (claim.reason) }
        }
    }
}

/// Published and measured number on one line, with what the rule allows shaded. Quotients by their
/// logarithm.
fn scale(claim: &Judged) -> Markup {
    let place = |value: f64| if claim.unit == "percent" { value } else { value.max(1e-6).ln() };
    let one = if claim.unit == "percent" { 0.0 } else { 1.0 };
    let values = [claim.published, claim.measured, claim.least, claim.most, Some(one)];
    let known: Vec<f64> = values.into_iter().flatten().chain(claim.interval.into_iter().flatten()).map(place).collect();
    let (least, most) = known.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &v| (a.min(v), b.max(v)));
    let room = ((most - least) * 0.12).max(0.05);
    let x = |value: f64| 300.0 * (place(value) - least + room) / (most - least + 2.0 * room);
    let (from, to) = (claim.least.map_or(0.0, x), claim.most.map_or(300.0, x));
    let told = format!(
        "published {}, found {}, wanted {}",
        shown(claim, claim.published),
        shown(claim, claim.measured),
        claim.wanted
    );
    let mark = |x: f64| format!("{x:.1}");
    html! {
        svg.scale viewBox="0 0 300 26" preserveAspectRatio="none" role="img" aria-label=(told) {
            rect x=(mark(from)) y="9" width=(mark(to - from)) height="8" fill="var(--good)" opacity=".22" {}
            line x1="0" x2="300" y1="13" y2="13" stroke="var(--line)" {}
            line x1=(mark(x(one))) x2=(mark(x(one))) y1="5" y2="21" stroke="var(--soft)" stroke-dasharray="2 2" {}
            @if let Some(value) = claim.published {
                line x1=(mark(x(value))) x2=(mark(x(value))) y1="4" y2="22" stroke="var(--ink)" stroke-width="2" {}
            }
            @if let Some([low, high]) = claim.interval {
                line x1=(mark(x(low))) x2=(mark(x(high))) y1="13" y2="13" stroke="var(--ink)" stroke-width="3" {}
            }
            @if let Some(value) = claim.measured {
                rect.(class(claim.verdict)) x=(mark(x(value) - 4.0)) y="7" width="8" height="12" rx="2" fill="currentColor" {}
            }
        }
    }
}

fn orders(report: &Report) -> Markup {
    html! {
        p.soft {
            "In each row of the mails' tables, pairs of columns whose order here is that of the mail. Figures within 5 % are a tie, in 001 within 0.61 %."
        }
        table {
            tbody {
                @for table in &report.tables {
                    @let count = table.count();
                    tr {
                        td { b { (table.tables) } }
                        td {
                            (count.same) " of " (count.measured()) " pairs, " (count.opposite) " opposite"
                            @if count.simulated > 0 { ", " (count.simulated) " simulated" }
                            @if let Some((same, of)) = table.ratings() { "; ratings " (same) " of " (of) }
                            br; small {
                                @for (at, (pair, count)) in table.by_pair().into_iter().enumerate() {
                                    @if at > 0 { "; " }
                                    (pair) " " (count.same) " of " (count.measured())
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn runs(report: &Report) -> Markup {
    html! {
        table {
            tbody {
                @for (name, run) in &report.runs {
                    tr {
                        td { b { (name) } br; small { (number(run.seconds)) " s" } }
                        td {
                            code { (run.command) }
                            @if let Some(failure) = &run.failure { br; small.not-reproduced { (failure) } }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
