//! Charts as SVG, drawn by plotters and coloured by the page.
//!
//! plotters writes fixed colours into attributes. Those used here are names: the page's style sheet
//! maps each to a colour, one for light and one for dark (`style.css`). Charts are as narrow
//! as a phone, so that their letters are never shrunk.

use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

/// Colours of series; the style sheet says which they are. Never shown as they are here.
pub(crate) const SERIES: [RGBColor; 6] =
    [RGBColor(1, 2, 1), RGBColor(1, 2, 2), RGBColor(1, 2, 3), RGBColor(1, 2, 4), RGBColor(1, 2, 5), RGBColor(1, 2, 6)];
/// Letters and axes.
pub(crate) const INK: RGBColor = RGBColor(1, 2, 16);
/// Grid lines.
pub(crate) const GRID: RGBColor = RGBColor(1, 2, 17);

/// Width and height in the units of letters of 12.
const WIDTH: u32 = 320;
const HEIGHT: u32 = 210;

/// Groups of bars: a figure for each group and series, where there is one.
#[derive(Clone, Debug)]
pub(crate) struct Bars {
    /// What a reader who sees nothing is told.
    pub(crate) title: String,
    pub(crate) unit: String,
    pub(crate) groups: Vec<String>,
    /// Index into [`SERIES`], and a figure for each group.
    pub(crate) series: Vec<(usize, Vec<Option<f64>>)>,
    /// The axis by powers of ten; else from 0, since a bar is read by its length.
    pub(crate) log: bool,
}

/// Lines over CPUs, both axes by powers.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    pub(crate) title: String,
    pub(crate) unit: String,
    /// Index into [`SERIES`], and points by x.
    pub(crate) series: Vec<(usize, Vec<(f64, f64)>)>,
}

type Failure = Box<dyn core::error::Error>;

impl Bars {
    /// The chart, or nothing where there are no figures.
    pub(crate) fn draw(&self) -> Result<Option<String>, Failure> {
        let figures: Vec<f64> = self.series.iter().flat_map(|(_, figures)| figures.iter().flatten().copied()).collect();
        let most = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
        if figures.is_empty() || (self.log && least <= 0.0) {
            return Ok(None);
        }
        let mut svg = String::new();
        if self.log {
            // A bar of no length would be the least figure: the axis begins below.
            let from = 10f64.powf((least * 0.8).log10().floor());
            self.paint(&mut svg, (from..most * 1.3).log_scale(), from, from)?;
        } else {
            let (bottom, top) = (least.min(0.0) * 1.1, (most.max(0.0) * 1.1).max(1e-9));
            self.paint(&mut svg, bottom..top, 0.0, bottom)?;
        }
        Ok(Some(finish(svg, &self.title)))
    }

    /// Bars stand on `from`; the axis begins at `bottom`.
    fn paint<Y>(&self, svg: &mut String, y: Y, from: f64, bottom: f64) -> Result<(), Failure>
    where
        Y: AsRangedCoord<Value = f64>,
        Y::CoordDescType: ValueFormatter<f64> + Ranged<ValueType = f64>,
    {
        let area = SVGBackend::with_string(svg, (WIDTH, HEIGHT)).into_drawing_area();
        let groups = self.groups.len() as f64;
        let mut chart = ChartBuilder::on(&area)
            .margin(4)
            .margin_top(16)
            .x_label_area_size(20)
            .y_label_area_size(44)
            .build_cartesian_2d(0.0..groups, y)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .disable_x_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(GRID)
            .y_labels(5)
            .y_label_formatter(&|value| short(*value))
            .label_style(("sans-serif", 12).into_font().color(&INK))
            .draw()?;
        // Where a group has no figure of a series, the others take its room.
        let present = |group: usize| self.series.iter().filter(move |(_, figures)| figures[group].is_some()).count();
        let widest = (0..self.groups.len()).map(present).max().unwrap_or(1).max(1);
        let room = 0.82 / widest as f64;
        for (at, (colour, figures)) in self.series.iter().enumerate() {
            let bars = figures.iter().enumerate().filter_map(|(group, figure)| {
                let before = self.series[..at].iter().filter(|(_, figures)| figures[group].is_some()).count();
                let left = group as f64 + 0.09 + before as f64 * room + (widest - present(group)) as f64 * room / 2.0;
                figure.map(|figure| {
                    Rectangle::new([(left, from), (left + room * 0.92, figure)], SERIES[*colour].filled())
                })
            });
            chart.draw_series(bars)?;
        }
        let (origin, end) = (chart.backend_coord(&(0.0, bottom)), chart.backend_coord(&(groups, bottom)));
        let style = |at: usize| {
            let anchor = plotters::style::text_anchor::Pos::new(
                plotters::style::text_anchor::HPos::Center,
                plotters::style::text_anchor::VPos::Top,
            );
            ("sans-serif", if at > 8 { 10 } else { 12 }).into_font().color(&INK).pos(anchor)
        };
        for (group, name) in self.groups.iter().enumerate() {
            let x = f64::from(origin.0) + (group as f64 + 0.5) / groups * f64::from(end.0 - origin.0);
            area.draw(&Text::new(name.as_str(), (x as i32, origin.1 + 6), style(self.groups.len())))?;
        }
        area.draw(&Text::new(self.unit.as_str(), (4, 2), ("sans-serif", 12).into_font().color(&INK)))?;
        area.present()?;
        Ok(())
    }
}

impl Lines {
    /// The chart, or nothing where there are no figures.
    pub(crate) fn draw(&self) -> Result<Option<String>, Failure> {
        let points: Vec<(f64, f64)> = self.series.iter().flat_map(|(_, points)| points.iter().copied()).collect();
        let bounds = |of: fn(&(f64, f64)) -> f64| {
            let (least, most) = points.iter().map(of).fold((f64::INFINITY, 0f64), |(a, b), v| (a.min(v), b.max(v)));
            (least, most)
        };
        let ((left, right), (low, high)) = (bounds(|point| point.0), bounds(|point| point.1));
        if points.is_empty() || low <= 0.0 || left <= 0.0 || right <= left {
            return Ok(None);
        }
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
            let mut chart = ChartBuilder::on(&area)
                .margin(4)
                .margin_top(16)
                .margin_right(12)
                .x_label_area_size(20)
                .y_label_area_size(44)
                .build_cartesian_2d(
                    (left..right * 1.05).log_scale().base(2.0),
                    (10f64.powf((low * 0.9).log10().floor())..high * 1.3).log_scale(),
                )?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(GRID)
                .axis_style(GRID)
                .x_labels(6)
                .y_labels(6)
                .x_label_formatter(&|value| short(*value))
                .y_label_formatter(&|value| short(*value))
                .label_style(("sans-serif", 12).into_font().color(&INK))
                .draw()?;
            for (colour, points) in &self.series {
                chart.draw_series(LineSeries::new(points.iter().copied(), SERIES[*colour].stroke_width(2)))?;
                chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, SERIES[*colour].filled())))?;
            }
            area.draw(&Text::new(self.unit.as_str(), (4, 2), ("sans-serif", 12).into_font().color(&INK)))?;
            area.present()?;
        }
        Ok(Some(finish(svg, &self.title)))
    }
}

/// 1500000 as `1.5M`.
fn short(value: f64) -> String {
    let trimmed = |value: f64, unit: &str| {
        let text = format!("{value:.2}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match value.abs() {
        size if size >= 1e6 => trimmed(value / 1e6, "M"),
        size if size >= 1e4 => trimmed(value / 1e3, "k"),
        _ => trimmed(value, ""),
    }
}

/// Makes the size the page's affair, and tells what the picture is.
fn finish(svg: String, title: &str) -> String {
    let title = title.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    svg.replacen(
        &format!("<svg width=\"{WIDTH}\" height=\"{HEIGHT}\""),
        &format!("<svg class=\"chart\" role=\"img\" aria-label=\"{title}\""),
        1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(log: bool) -> Bars {
        Bars {
            title: "A & <B>".to_owned(),
            unit: "cycles".to_owned(),
            groups: vec!["8".to_owned(), "64".to_owned()],
            series: vec![(0, vec![Some(5.0), Some(7.0)]), (3, vec![Some(50.0), None])],
            log,
        }
    }

    #[test]
    fn each_figure_is_a_bar_of_its_series() {
        for log in [false, true] {
            let svg = bars(log).draw().unwrap().expect("there are figures");
            assert_eq!(svg.matches("fill=\"#010201\"").count(), 2, "{svg}");
            assert_eq!(svg.matches("fill=\"#010204\"").count(), 1, "{svg}");
            assert!(svg.contains("viewBox") && svg.contains("aria-label=\"A &amp; &lt;B>\""), "{svg}");
            assert!(!svg.contains("<svg width="), "the page decides how wide it is");
        }
    }

    #[test]
    fn without_figures_there_is_no_chart() {
        let none = Bars { series: vec![(0, vec![None, None])], ..bars(true) };
        assert!(none.draw().unwrap().is_none());
        let lines = Lines { title: String::new(), unit: String::new(), series: vec![(0, Vec::new())] };
        assert!(lines.draw().unwrap().is_none());
    }

    #[test]
    fn a_line_has_a_mark_for_each_point() {
        let points = vec![(2.0, 30.0), (8.0, 120.0), (1024.0, 9000.0)];
        let lines = Lines { title: "D".to_owned(), unit: "cycles".to_owned(), series: vec![(1, points)] };
        let svg = lines.draw().unwrap().unwrap();
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(svg.contains("stroke=\"#010202\""), "{svg}");
    }

    #[test]
    fn large_numbers_are_short() {
        assert_eq!([0.5, 100.0, 9999.0, 20_000.0, 1.5e6].map(short), ["0.5", "100", "9999", "20k", "1.5M"]);
    }
}
