//! How ours stand against the best peer: the last columns of a block, and a line for each test.

use core::fmt::Write;

use crate::experiments::kernel_tests::table::best::best_peer;
use crate::kit::rating::{WIDEST, rating};
use crate::kit::record::{Report, value};
use crate::kit::statistics::{Statistic, geometric_mean};

/// A system that is rated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rated {
    id: &'static str,
    /// Head of its column where it has one.
    head: &'static str,
}

const RATED: [Rated; 2] = [Rated { id: "ashlar", head: "[ashlar]" }, Rated { id: "ashlar-malloc", head: "[malloc]" }];

/// The rule of [`rating`], printed under the tables.
pub(crate) const RULE: &str = "\
Rating: `ashlar` against the best peer of the row that is not told the size. Where `ashlar-malloc` was measured, it is rated, too: \
[ashlar] is the rating of `ashlar`, [malloc] that of `ashlar-malloc`. (`ashlar-*`, `limit*` and `linux-*` are no peers.)
With r = slower / faster - 1:  =  r up to 5 %;  + or -  up to 20 %;  ++ or --  up to 40 %;  +++ or ---  up to 70 %;
++++ or ----  above;  N *  ours is N times faster or more (2 to 10);  > 10 *  more than ten times.
";

/// The rated systems that `run` has.
pub(crate) fn rated(run: &Report) -> Vec<Rated> {
    let systems = run.systems();
    RATED.into_iter().filter(|rated| systems.contains(&rated.id)).collect()
}

/// The heads of the rating columns. The rating of `ashlar` alone needs none.
pub(crate) fn heads(run: &Report) -> Vec<String> {
    let rated = rated(run);
    if rated == RATED[..1] { Vec::new() } else { rated.iter().map(|rated| rated.head.to_owned()).collect() }
}

/// Characters that the rating columns take, with the spaces before each.
pub(crate) fn width(run: &Report) -> usize {
    let heads = heads(run);
    if heads.is_empty() { 2 + WIDEST } else { heads.iter().map(|head| 2 + head.len().max(WIDEST)).sum() }
}

/// The ratings of a row, one for each rated system.
pub(crate) fn cells(run: &Report, test: &str, size: usize, by: Statistic) -> Vec<String> {
    let rate = |rated: Rated| {
        let pair = run.cell(test, rated.id, size).zip(best_peer(run, rated.id, test, size, by));
        pair.map_or_else(String::new, |(ours, (_, peer))| rating(value(ours, by), peer))
    };
    rated(run).into_iter().map(rate).collect()
}

/// Writes a line for each rated system: the mean of its ratios in `test`, and the worst.
pub(crate) fn summary(text: &mut String, run: &Report, test: &str, by: Statistic) {
    for Rated { id: rated, .. } in rated(run) {
        let mut ratios = Vec::new();
        let mut worst = (0.0, 0, "");
        for size in run.sizes(test) {
            let Some((ours, (id, peer))) = run.cell(test, rated, size).zip(best_peer(run, rated, test, size, by))
            else {
                continue;
            };
            let ratio = value(ours, by) / peer;
            if ratio > worst.0 {
                worst = (ratio, size, id);
            }
            ratios.push(ratio);
        }
        if ratios.is_empty() {
            continue;
        }
        let _ = writeln!(
            text,
            "Test {test}: {rated} / best peer {:.2} (geometric mean of {} sizes by {}; worst {:.2} at {} against {})",
            geometric_mean(&ratios),
            ratios.len(),
            by.name(),
            worst.0,
            worst.1,
            worst.2
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::kernel_tests::table::{Columns, render};
    use crate::kit::record;

    fn both() -> Report {
        record::sample(&[
            ("A", "ashlar", 8, 10.0),
            ("A", "ashlar-malloc", 8, 30.0),
            ("A", "jemalloc", 8, 20.0),
            ("A", "jemalloc-sized", 8, 1.0),
            ("A", "ashlar", 64, 20.0),
            ("A", "jemalloc", 64, 20.0),
        ])
    }

    #[test]
    fn the_drop_in_malloc_has_a_rating_and_a_line_of_its_own() {
        let text = render(&both(), Statistic::Median, Columns::All);
        let head = text.lines().find(|line| line.trim_start().starts_with("ashlar  ")).unwrap();
        assert!(head.ends_with("[ashlar]  [malloc]"), "{text}");
        let row = |size: &str| text.lines().find(|line| line.trim_start().starts_with(size)).unwrap();
        let words = |size: &str| row(size).split_whitespace().skip(5).collect::<Vec<_>>().join(" ");
        assert_eq!((&*words("8 "), &*words("64 ")), ("2 * ---", "="), "{text}");
        assert!(text.contains("Test A: ashlar / best peer 0.71 (geometric mean of 2 sizes"), "{text}");
        let line = "Test A: ashlar-malloc / best peer 1.50 (geometric mean of 1 sizes by median; worst 1.50 at 8 against jemalloc)";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn a_rating_of_the_drop_in_malloc_alone_says_whose_it_is() {
        let mut run = both();
        run.records.retain(|record| record.system != "ashlar");
        let text = render(&run, Statistic::Median, Columns::All);
        assert!(text.lines().any(|line| line.ends_with("jemalloc-sized  [malloc]")), "{text}");
        assert!(!text.contains("Test A: ashlar /"), "{text}");
        // The rating of `ashlar` alone stands behind the columns, as ever.
        let mut run = both();
        run.records.retain(|record| record.system != "ashlar-malloc");
        assert!(heads(&run).is_empty() && width(&run) == 8);
        assert!(!render(&run, Statistic::Median, Columns::All).contains("ashlar-malloc / best"));
    }

    #[test]
    fn a_table_with_two_ratings_fits_the_terminal() {
        let ids = ["ashlar", "ashlar-malloc", "glibc", "mimalloc", "jemalloc", "snmalloc", "rpmalloc", "slab", "slub"];
        let run = record::sample(&ids.map(|id| ("A", id, 8, if id == "glibc" { 100.0 } else { 1234.0 })));
        for width in 80..160 {
            let text = render(&run, Statistic::Median, Columns::Fitting(width));
            assert!(text.lines().all(|line| line.len() <= width), "{width}:\n{text}");
            // One part: the heads of the ratings end the line of the systems.
            let head = text.lines().find(|line| line.contains("ashlar-malloc ")).unwrap();
            assert!(head.contains("  ashlar ") && head.ends_with("[ashlar]  [malloc]"), "{width}:\n{text}");
        }
    }
}
