//! Lines of growth: how far figures moved since the first sample.

use super::html::{Text, change, put};

/// Size of the drawing; letters keep their size on a phone, which is about as wide.
const WIDTH: f64 = 340.0;
const HEIGHT: f64 = 190.0;
/// Room for the letters of the axes.
const LEFT: f64 = 66.0;
const BOTTOM: f64 = 20.0;
const TOP: f64 = 8.0;
const RIGHT: f64 = 8.0;

/// One line: its name, the class of its colour, and a figure for each time.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) class: &'a str,
    pub(super) values: Vec<i64>,
}

/// Draws a chart under a title. `times` are seconds since the first sample.
pub(super) fn draw(page: &mut String, title: &str, note: &str, times: &[f64], lines: &[Line<'_>]) {
    let end = times.last().copied().unwrap_or(0.0).max(1e-3);
    let all = || lines.iter().flat_map(|line| line.values.iter().copied());
    let (least, most) = (all().min().unwrap_or(0).min(0), all().max().unwrap_or(0).max(0));
    let step = step(most.saturating_sub(least).max(1));
    let (low, high) = (least.div_euclid(step) * step, most.saturating_add(step - 1).div_euclid(step) * step);
    let high = high.max(low.saturating_add(step));
    let x = |time: f64| LEFT + (WIDTH - LEFT - RIGHT) * (time / end).clamp(0.0, 1.0);
    let y = |value: i64| TOP + (HEIGHT - TOP - BOTTOM) * (high as f64 - value as f64) / (high as f64 - low as f64);
    put!(page, "<figure><h3>{}</h3><figcaption>{}</figcaption>", Text(title), Text(note));
    if lines.len() > 1 {
        *page += "<ul class=\"legend\">";
        for line in lines {
            put!(page, "<li><i class=\"{}\"></i>{}</li>", line.class, Text(line.name));
        }
        *page += "</ul>";
    }
    put!(page, "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", Text(title));
    let mut tick = low;
    while tick <= high {
        let class = if tick == 0 { "zero" } else { "grid" };
        let at = y(tick);
        put!(page, "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>", WIDTH - RIGHT);
        put!(page, "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", LEFT - 6.0, at + 4.0, change(tick));
        tick = tick.saturating_add(step);
    }
    let bottom = HEIGHT - 5.0;
    put!(page, "<text x=\"{LEFT}\" y=\"{bottom:.0}\">0 s</text>");
    put!(page, "<text x=\"{:.0}\" y=\"{bottom:.0}\" text-anchor=\"end\">{end:.1} s</text>", WIDTH - RIGHT);
    for line in lines {
        let points: Vec<String> =
            times.iter().zip(&line.values).map(|(&time, &value)| format!("{:.1},{:.1}", x(time), y(value))).collect();
        put!(page, "<polyline class=\"{}\" points=\"{}\"/>", line.class, points.join(" "));
        if let (Some(&time), Some(&value)) = (times.last(), line.values.last()) {
            put!(page, "<circle class=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"/>", line.class, x(time), y(value));
        }
    }
    *page += "</svg></figure>";
}

/// Returns a distance of ticks, a power of two, at which a range has three to six.
fn step(range: i64) -> i64 {
    let mut step = 1i64;
    while range / step >= 5 {
        step = step.saturating_mul(2);
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_has_a_few_ticks() {
        for range in [1, 7, 4096, 5 << 20, i64::MAX] {
            assert!((1..=5).contains(&(range / step(range))), "{range}");
        }
    }

    #[test]
    fn any_figures_are_drawn_to_an_end() {
        for values in [vec![0], vec![0, 0], vec![0, 5000, -70_000], vec![i64::MIN, i64::MAX], vec![]] {
            let mut page = String::new();
            let times: Vec<f64> = (0..values.len()).map(|at| at as f64).collect();
            draw(&mut page, "<t>", "", &times, &[Line { name: "a", class: "l0", values }]);
            assert!(page.contains("&lt;t&gt;") && page.ends_with("</svg></figure>"), "{page}");
            assert!(page.matches("<line").count() < 9 && !page.contains("NaN") && !page.contains("inf"), "{page}");
        }
    }
}
