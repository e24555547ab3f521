//! The peer that ours is compared with.

use crate::kit::record::{Report, value};
use crate::kit::statistics::Statistic;
use crate::systems::SystemInfo;

/// The best of the peers that `ours` is compared with, in one cell. A figure of zero is no
/// measurement.
pub(crate) fn best_peer<'a>(
    run: &'a Report,
    ours: &str,
    test: &str,
    size: usize,
    by: Statistic,
) -> Option<(&'a str, f64)> {
    run.systems()
        .into_iter()
        .filter(|id| SystemInfo::by_id(id).is_some_and(|info| info.is_peer_of(ours)))
        .filter_map(|id| run.cell(test, id, size).map(|record| (id, value(record, by))))
        .filter(|(_, figure)| *figure > 0.0)
        .min_by(|a, b| a.1.total_cmp(&b.1))
}
