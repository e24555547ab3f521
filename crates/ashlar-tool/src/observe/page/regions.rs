//! What the memory of a process is divided into.

use crate::observe::report::{Cache, Report};

/// What a part of a region holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    InUse,
    Cached,
    Pinned,
    Empty,
    /// Ends of slabs and room between objects.
    Waste,
    FreePages,
    Metadata,
}

impl Kind {
    pub(super) const ALL: [Kind; 7] =
        [Kind::InUse, Kind::Cached, Kind::Pinned, Kind::Empty, Kind::Waste, Kind::FreePages, Kind::Metadata];

    /// The class of its colour.
    pub(super) fn class(self) -> &'static str {
        match self {
            Kind::InUse => "k-use",
            Kind::Cached => "k-cached",
            Kind::Pinned => "k-pinned",
            Kind::Empty => "k-empty",
            Kind::Waste => "k-waste",
            Kind::FreePages => "k-free",
            Kind::Metadata => "k-meta",
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Kind::InUse => "in use",
            Kind::Cached => "free, in front of slabs",
            Kind::Pinned => "free, pinned in slabs",
            Kind::Empty => "empty slabs",
            Kind::Waste => "ends of slabs",
            Kind::FreePages => "free pages",
            Kind::Metadata => "metadata",
        }
    }
}

/// A rectangle of the treemap.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// What it consists of; the sum is that of the region.
    pub(super) parts: Vec<(Kind, u64)>,
}

/// Regions smaller than this share of all are shown as one.
const SMALL: u64 = 400;

/// Returns all memory of a process, the largest region first.
pub(super) fn all(report: &Report) -> Vec<Region> {
    let mut regions: Vec<Region> = report.caches().into_iter().map(|(name, cache)| of_cache(name, cache)).collect();
    let mut one = |name: &str, kind: Kind, bytes: u64| {
        regions.push(Region { name: name.to_owned(), bytes, parts: vec![(kind, bytes)] });
    };
    for allocator in &report.allocators {
        one("large objects", Kind::InUse, allocator.large.bytes);
        one("mappings", Kind::InUse, allocator.mapped_bytes);
        one("free pages", Kind::FreePages, allocator.pages.dirty_bytes);
        one("metadata", Kind::Metadata, allocator.metadata_bytes);
    }
    regions.retain(|region| region.bytes > 0);
    let whole: u64 = regions.iter().map(|region| region.bytes).fold(0, u64::saturating_add);
    let (mut shown, small): (Vec<Region>, Vec<Region>) =
        regions.into_iter().partition(|region| region.bytes >= whole / SMALL);
    if !small.is_empty() {
        let sum = |kind| {
            let parts = small.iter().flat_map(|region| &region.parts).filter(|(other, _)| *other == kind);
            parts.map(|(_, bytes)| *bytes).fold(0, u64::saturating_add)
        };
        let parts: Vec<(Kind, u64)> = Kind::ALL.map(|kind| (kind, sum(kind))).to_vec();
        let bytes = parts.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
        shown.push(Region { name: format!("{} small ones", small.len()), bytes, parts });
    }
    shown.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    shown
}

/// Returns the sums of the parts of all regions.
pub(super) fn sums(regions: &[Region]) -> Vec<(Kind, u64)> {
    let of = |kind: Kind| {
        let parts = regions.iter().flat_map(|region| &region.parts).filter(|(other, _)| *other == kind);
        (kind, parts.map(|(_, bytes)| *bytes).fold(0, u64::saturating_add))
    };
    Kind::ALL.map(of).into_iter().filter(|(_, bytes)| *bytes > 0).collect()
}

fn of_cache(name: String, cache: &Cache) -> Region {
    // Figures of one moment add up; those of a process that changes may be off, and are cut.
    let mut left = cache.bytes;
    let mut take = |bytes: u64| {
        let taken = bytes.min(left);
        left -= taken;
        taken
    };
    let each = |count: u64| count.saturating_mul(cache.stride);
    let mut parts = vec![
        (Kind::InUse, take(each(cache.active))),
        (Kind::Cached, take(each(cache.cached))),
        (Kind::Pinned, take(cache.pinned_bytes)),
        (Kind::Empty, take(cache.empty_bytes())),
    ];
    parts.push((Kind::Waste, left));
    Region { name, bytes: cache.bytes, parts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::report::{Allocator, Large};

    fn cache(name: &str, bytes: u64, active: u64) -> Cache {
        Cache { name: name.to_owned(), bytes, stride: 100, active, cached: 5, pinned_bytes: 700, ..Cache::default() }
    }

    #[test]
    fn parts_add_up_to_all_that_is_held() {
        let caches = vec![cache("a", 4096, 30), cache("b", 1 << 20, 9000), cache("c", 4096, 1 << 60)];
        let large = Large { objects: 1, bytes: 1 << 20 };
        let allocator = Allocator { caches, large, metadata_bytes: 1 << 19, ..Allocator::default() };
        let report = Report { allocators: vec![allocator], ..Report::default() };
        let regions = all(&report);
        let names: Vec<&str> = regions.iter().map(|region| region.name.as_str()).collect();
        assert_eq!(names, ["b", "large objects", "metadata", "2 small ones"]);
        for region in &regions {
            assert_eq!(region.parts.iter().map(|(_, bytes)| bytes).sum::<u64>(), region.bytes, "{region:?}");
        }
        let held: u64 = regions.iter().map(|region| region.bytes).sum();
        assert_eq!(held, 2 * 4096 + (2 << 20) + (1 << 19));
        assert_eq!(sums(&regions).iter().map(|(_, bytes)| bytes).sum::<u64>(), held);
    }

    #[test]
    fn empty_slabs_have_the_size_that_the_report_tells_and_that_of_old_without() {
        for (slab_bytes, empty) in [(32 << 10, 64 << 10), (0, 16 << 10)] {
            let cache = Cache { empty: 2, order: 1, slab_bytes, ..cache("a", 1 << 20, 30) };
            let region = of_cache("a".to_owned(), &cache);
            assert!(region.parts.contains(&(Kind::Empty, empty)), "{region:?}");
        }
    }

    #[test]
    fn figures_that_lie_are_cut() {
        let liar =
            Cache { bytes: u64::MAX, stride: u64::MAX, active: u64::MAX, order: 255, empty: 9, ..Cache::default() };
        let allocator = Allocator { caches: vec![liar.clone(), liar], ..Allocator::default() };
        let regions = all(&Report { allocators: vec![allocator], ..Report::default() });
        assert_eq!(regions.len(), 2);
        assert_eq!(sums(&regions), [(Kind::InUse, u64::MAX)]);
    }
}
