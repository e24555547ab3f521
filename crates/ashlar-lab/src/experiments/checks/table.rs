//! What `bench checks` prints: a block for each test, sizes down.

use core::fmt::Write;

use crate::experiments::checks::plan::{BURST, Cost, Run, SYSTEMS, TESTS};
use crate::kit::table::{aligned, figure, machine};

/// All blocks.
pub(crate) fn render(run: &Run) -> String {
    let mut text = machine(&run.host);
    let _ = writeln!(
        text,
        "{} rounds, medians; ratios are taken within each round, with their interval at 95 %\n\
         `unchecked` is malloc and free without the five instructions of the checks, in the lab alone",
        run.host.rounds
    );
    for (test, title) in TESTS.iter().zip([
        "Pairs: malloc and free at once".to_owned(),
        format!("Bursts: {BURST} calls of malloc, then {BURST} of free"),
    ]) {
        let _ = writeln!(text, "\n{title}, ticks for one of each");
        let mut rows = vec![head()];
        let mut sizes: Vec<usize> = run.costs.iter().filter(|cost| cost.test == *test).map(|cost| cost.size).collect();
        // The mean over all sizes has size 0 and stands last.
        sizes.sort_unstable_by_key(|&size| if size == 0 { usize::MAX } else { size });
        sizes.dedup();
        for size in sizes {
            let mut row = vec![if size == 0 { "mean".to_owned() } else { size.to_string() }];
            for system in SYSTEMS {
                let is_it = |record: &&crate::kit::record::Record| {
                    record.test == *test && record.system == system && record.size == size
                };
                row.push(run.records.iter().find(is_it).map_or_else(|| "-".to_owned(), |r| figure(r.median)));
            }
            for over in &SYSTEMS[1..] {
                let of = |cost: &&Cost| cost.test == *test && cost.size == size && cost.over == *over;
                row.push(run.costs.iter().find(of).map_or_else(|| "-".to_owned(), shown));
            }
            rows.push(row);
        }
        aligned(&mut text, &rows);
    }
    let most = run.slow.iter().map(|cell| cell.3).fold(0.0, f64::max);
    let _ = writeln!(text, "\nOff the fast path: at most {:.3} % of the calls of any cell", 100.0 * most);
    text
}

fn head() -> Vec<String> {
    let systems = SYSTEMS.iter().map(|system| (*system).to_owned());
    let ratios = SYSTEMS[1..].iter().map(|over| format!("{} / {over}", SYSTEMS[0]));
    [String::new()].into_iter().chain(systems).chain(ratios).collect()
}

fn shown(cost: &Cost) -> String {
    match cost.interval {
        Some([low, high]) => format!("{:.3} [{low:.3}, {high:.3}]", cost.ratio),
        None => format!("{:.3} (more rounds needed)", cost.ratio),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::checks::plan::tests::answers;
    use crate::kit::record::Host;

    #[test]
    fn a_table_has_each_size_the_mean_and_the_intervals() {
        let text = render(&Run::collect(Host::default(), &answers(8, 0.001)));
        assert_eq!(text.matches("1.200 [1.200, 1.200]").count(), 6, "{text}");
        assert_eq!(text.matches("\nmean").count(), 2, "{text}");
        assert!(text.contains("at most 0.100 % of the calls"), "{text}");
        let few = render(&Run::collect(Host::default(), &answers(3, 0.0)));
        assert!(few.contains("1.200 (more rounds needed)") && !few.contains("inf"), "{few}");
    }
}
