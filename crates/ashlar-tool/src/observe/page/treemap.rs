//! Memory as a treemap: rectangles whose areas are bytes, the largest first.

use super::html::{Text, percent, put, size};
use super::regions::{Kind, Region};

/// A rectangle.
#[derive(Clone, Copy, Debug)]
struct Place {
    x: f64,
    y: f64,
    width: f64,
    height: f64,
}

/// A treemap has the shape of a desk's or of a phone's screen; the style sheet shows one. The
/// class, and the size in pixels for which labels are made.
const SHAPES: [(&str, f64, f64); 2] = [("wide", 1120.0, 420.0), ("narrow", 340.0, 520.0)];
/// The room that a name and its size need, in pixels.
const LABEL: (f64, f64) = (58.0, 34.0);

/// Draws the treemap in both shapes.
pub(super) fn draw(page: &mut String, regions: &[Region]) {
    let whole: u64 = regions.iter().map(|region| region.bytes).fold(0, u64::saturating_add);
    for (class, width, height) in SHAPES {
        put!(page, "<div class=\"map {class}\" style=\"aspect-ratio:{width}/{height}\">");
        let areas: Vec<f64> = regions.iter().map(|region| region.bytes as f64).collect();
        for (region, place) in regions.iter().zip(squares(&areas, width, height)) {
            let Place { x, y, width: wide, height: high } = place;
            let share = percent(region.bytes, whole);
            put!(
                page,
                "<div class=\"tile\" style=\"left:{:.3}%;top:{:.3}%;width:{:.3}%;height:{:.3}%\" title=\"{}: {}, {share:.1} %{}\">",
                x * 100.0 / width,
                y * 100.0 / height,
                wide * 100.0 / width,
                high * 100.0 / height,
                Text(&region.name),
                size(region.bytes),
                Text(&told(region))
            );
            for (kind, bytes) in &region.parts {
                put!(page, "<i class=\"{}\" style=\"width:{:.2}%\"></i>", kind.class(), percent(*bytes, region.bytes));
            }
            if wide >= LABEL.0 && high >= LABEL.1 {
                put!(page, "<span><b>{}</b><br>{}</span>", Text(&region.name), size(region.bytes));
            }
            *page += "</div>";
        }
        *page += "</div>";
    }
    *page += "<ul class=\"legend\">";
    for kind in Kind::ALL {
        if regions.iter().flat_map(|region| &region.parts).any(|(other, bytes)| *other == kind && *bytes > 0) {
            put!(page, "<li><i class=\"{}\"></i>{}</li>", kind.class(), kind.words());
        }
    }
    *page += "</ul>";
}

fn told(region: &Region) -> String {
    let parts = region.parts.iter().filter(|(_, bytes)| region.parts.len() > 1 && *bytes > 0);
    parts.map(|(kind, bytes)| format!("; {} {}", size(*bytes), kind.words())).collect()
}

/// Divides a rectangle into parts of these areas, which fall, and makes them as square as they can
/// be: rows are filled along the shorter side while that improves the worst of a row.
fn squares(areas: &[f64], width: f64, height: f64) -> Vec<Place> {
    let whole: f64 = areas.iter().sum();
    let mut places = Vec::with_capacity(areas.len());
    if whole <= 0.0 {
        return places;
    }
    let scale = width * height / whole;
    let mut rest: Vec<f64> = areas.iter().map(|area| area * scale).collect();
    let mut free = Place { x: 0.0, y: 0.0, width, height };
    while !rest.is_empty() {
        let side = free.width.min(free.height);
        let mut taken = 1;
        while taken < rest.len() && worst(&rest[..=taken], side) <= worst(&rest[..taken], side) {
            taken += 1;
        }
        let row: Vec<f64> = rest.drain(..taken).collect();
        let sum: f64 = row.iter().sum();
        let thick = if side > 0.0 { sum / side } else { 0.0 };
        let mut along = 0.0;
        for area in row {
            let length = if thick > 0.0 { area / thick } else { 0.0 };
            places.push(if free.width >= free.height {
                Place { x: free.x, y: free.y + along, width: thick, height: length }
            } else {
                Place { x: free.x + along, y: free.y, width: length, height: thick }
            });
            along += length;
        }
        if free.width >= free.height {
            (free.x, free.width) = (free.x + thick, (free.width - thick).max(0.0));
        } else {
            (free.y, free.height) = (free.y + thick, (free.height - thick).max(0.0));
        }
    }
    places
}

/// Returns the longest side of a row's rectangles by the shortest.
fn worst(row: &[f64], side: f64) -> f64 {
    let sum: f64 = row.iter().sum();
    let of = |area: f64| (side * side * area / (sum * sum)).max(sum * sum / (side * side * area));
    row.iter().copied().map(of).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Each has its area, lies inside, and lies on no other.
        #[test]
        fn rectangles_fill_the_whole(mut areas in proptest::collection::vec(1f64..1e9, 1..40)) {
            areas.sort_by(|a, b| b.total_cmp(a));
            let places = squares(&areas, 1120.0, 420.0);
            prop_assert_eq!(places.len(), areas.len());
            let whole: f64 = areas.iter().sum();
            for (place, area) in places.iter().zip(&areas) {
                let wanted = area / whole * 1120.0 * 420.0;
                prop_assert!((place.width * place.height - wanted).abs() <= 1e-6 * wanted.max(1.0), "{place:?} {wanted}");
                prop_assert!(place.x >= 0.0 && place.x + place.width <= 1120.001, "{place:?}");
                prop_assert!(place.y >= 0.0 && place.y + place.height <= 420.001, "{place:?}");
            }
            for (at, a) in places.iter().enumerate() {
                for b in &places[..at] {
                    let apart = a.x + a.width <= b.x + 1e-6 || b.x + b.width <= a.x + 1e-6
                        || a.y + a.height <= b.y + 1e-6 || b.y + b.height <= a.y + 1e-6;
                    prop_assert!(apart, "{a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn nothing_has_no_rectangles() {
        assert!(squares(&[], 1.0, 1.0).is_empty() && squares(&[0.0], 1.0, 1.0).is_empty());
    }
}
