//! A run of `soak` as text.

use std::collections::BTreeMap;

use crate::experiments::soak::plan::{Answer, Round};

/// The options of a round as one sets them.
pub(crate) fn settings(round: &Round) -> String {
    let all =
        [("ASHLAR_OPTIONS", &round.options), ("ASHLAR_DEBUG", &round.debug), ("ASHLAR_FAILSLAB", &round.failslab)];
    let given = all.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| format!("{name}={value}"));
    let text = given.collect::<Vec<_>>().join(" ");
    if text.is_empty() { "no options".to_owned() } else { text }
}

/// A line for each round, and sums.
pub(crate) fn render(seed: u64, rounds: &[(Round, Answer)]) -> String {
    let mut text =
        format!("Soak with seed {seed}\n{:>10} {:>9} {:>22}  options\n", "objects", "refused", "resident MiB");
    let (mut sum, mut actions) = (Answer::default(), BTreeMap::<&str, u64>::new());
    for (round, answer) in rounds {
        let resident = answer.resident.iter().map(|&kib| format!("{:.1}", kib as f64 / 1024.0)).collect::<Vec<_>>();
        text += &format!(
            "{:>10} {:>9} {:>22}  {}\n",
            answer.allocated,
            answer.refused,
            resident.join(" "),
            settings(round)
        );
        sum.allocated += answer.allocated;
        sum.refused += answer.refused;
        sum.freed += answer.freed;
        for (action, count) in &answer.actions {
            *actions.entry(action).or_default() += count;
        }
    }
    let actions = actions.iter().map(|(action, count)| format!("{count} {action}")).collect::<Vec<_>>();
    text += &format!(
        "\n{} rounds: {} objects allocated and {} freed, {} allocations refused; {}.\n",
        rounds.len(),
        sum.allocated,
        sum.freed,
        sum.refused,
        actions.join(", ")
    );
    if sum.allocated == sum.freed && !rounds.is_empty() {
        text += "Nothing was lost: every object held what its owner wrote, and no cache had one left.\n";
    }
    text
}
