//! Draws `ashlar top`: a head, the table, and a line of keys. Bold and reversed text alone, which
//! light and dark terminals show alike.

use ratatui_core::layout::{Constraint, Layout, Rect};
use ratatui_core::style::{Modifier, Style};
use ratatui_core::terminal::Frame;
use ratatui_core::text::{Line, Text};

use super::model::{Model, Row};
use crate::args::Column;
use crate::observe::text::{short, shortened};

/// What is on the screen beside the rows.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// What is true of the whole process or machine.
    pub(super) head: Vec<String>,
    /// All figures of one cache, in place of the table.
    pub(super) detail: Option<String>,
    /// The first line of them that is shown.
    pub(super) scrolled: usize,
    /// The filter is being typed.
    pub(super) typing: bool,
    pub(super) paused: bool,
}

const KEYS: &str = "q quit  Enter detail  </> sort  r reverse  / filter  m mark  Space pause";
const KEYS_OF_DETAIL: &str = "Esc back  Up/Down scroll  Space pause  q quit";
/// From this width on there are a column of free objects and curves.
const WIDE: u16 = 100;
/// Columns of a curve.
const CURVE: u16 = 20;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, shown: &Shown) {
    let head = shown.head.len() as u16;
    let parts = [Constraint::Length(head + 1), Constraint::Min(1), Constraint::Length(1)];
    let [top, middle, bottom] = Layout::vertical(parts).areas(frame.area());
    let mut lines: Vec<Line<'_>> = shown.head.iter().map(|line| Line::from(line.as_str())).collect();
    if let Some(first) = lines.first_mut() {
        first.style = Style::new().add_modifier(Modifier::BOLD);
    }
    frame.render_widget(Text::from(lines), top);
    match &shown.detail {
        Some(text) => {
            frame.render_widget(text.lines().skip(shown.scrolled).map(Line::from).collect::<Text<'_>>(), middle)
        }
        None => draw_table(frame, middle, model),
    }
    let paused = if shown.paused { "paused  " } else { "" };
    let keys = match () {
        () if shown.typing => format!("filter: {}_", model.filter),
        () if shown.detail.is_some() => format!("{paused}{KEYS_OF_DETAIL}"),
        () => {
            let filter = if model.filter.is_empty() { String::new() } else { format!("filter {}  ", model.filter) };
            format!("{paused}{filter}{KEYS}")
        }
    };
    let keys = shortened(&keys, usize::from(bottom.width));
    frame.render_widget(Line::from(keys), bottom);
    frame.buffer_mut().set_style(bottom, Modifier::REVERSED);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let wide = area.width >= WIDE;
    let columns: Vec<Column> = Column::ALL.into_iter().filter(|&column| wide || column != Column::Cached).collect();
    let mut widths = vec![Constraint::Min(20)];
    widths.extend(columns.iter().skip(1).map(|&column| Constraint::Length(width(column))));
    widths.extend(wide.then_some(Constraint::Length(CURVE)));
    let columns_of = Layout::horizontal(widths).spacing(1);
    let mut heads: Vec<Line<'_>> = columns.iter().map(|&column| head(model, column)).collect();
    heads.extend(wide.then(|| Line::from("live memory")));
    let rows = model.rows();
    let shown = usize::from(area.height.saturating_sub(1));
    let selected = model.selected.min(rows.len().saturating_sub(1));
    // The last line that fits is the selected one when that is further down.
    let first = (selected + 1).saturating_sub(shown);
    let cells = rows.iter().skip(first).map(|row| {
        let mut cells: Vec<Line<'_>> =
            columns.iter().map(|&column| aligned(cell(row, column).into(), column)).collect();
        cells.extend(wide.then(|| Line::from(curve(&row.history, usize::from(CURVE)))));
        cells
    });
    for (line, cells) in area.rows().zip(core::iter::once(heads).chain(cells)) {
        for (cell, place) in cells.into_iter().zip(columns_of.split(line).iter()) {
            frame.render_widget(cell, *place);
        }
    }
    let line = |number: usize| Rect { y: area.y + number as u16, height: 1, ..area }.intersection(area);
    frame.buffer_mut().set_style(line(0), Modifier::BOLD);
    if !rows.is_empty() && shown > 0 {
        frame.buffer_mut().set_style(line(1 + selected - first), Modifier::REVERSED);
    }
}

/// The head of a column; that by which rows are sorted has a mark.
fn head(model: &Model, column: Column) -> Line<'static> {
    let mark = match (column == model.sort, model.reversed) {
        (false, _) => "",
        (true, false) => "*",
        (true, true) => "^",
    };
    aligned(Line::from(format!("{mark}{}", column.head())), column)
}

/// Numbers stand to the right.
fn aligned(line: Line<'_>, column: Column) -> Line<'_> {
    if column == Column::Name { line } else { line.right_aligned() }
}

fn width(column: Column) -> u16 {
    match column {
        Column::Alloc | Column::Free => 8,
        _ => 9,
    }
}

/// The text of one cell.
pub(super) fn cell(row: &Row, column: Column) -> String {
    let width = usize::from(width(column));
    let kib = |bytes: u64| short(bytes.div_ceil(1024), width);
    match column {
        Column::Name => row.item.name.clone(),
        Column::Active => short(row.item.active, width),
        Column::Cached => short(row.item.cached, width),
        Column::Memory => kib(row.item.bytes),
        Column::Pinned => kib(row.item.pinned),
        Column::Growth => match row.growth / 1024 {
            0 => "0".to_owned(),
            growth => {
                let sign = if growth < 0 { '-' } else { '+' };
                format!("{sign}{}", short(growth.unsigned_abs(), width - 1))
            }
        },
        Column::Alloc => rate(row.allocs, width),
        Column::Free => rate(row.frees, width),
    }
}

fn rate(rate: f64, width: usize) -> String {
    match rate {
        rate if rate <= 0.0 => "0".to_owned(),
        rate if rate < 9.95 => format!("{rate:.1}"),
        rate => short(rate.round() as u64, width),
    }
}

/// The last samples as a curve of `width` columns.
fn curve(samples: &[u64], width: usize) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &samples[samples.len().saturating_sub(width)..];
    let most = shown.iter().copied().max().unwrap_or(0).max(1);
    let step = |&sample: &u64| STEPS[(u128::from(sample) * (STEPS.len() as u128 - 1) / u128::from(most)) as usize];
    shown.iter().map(step).collect()
}

/// The table as text, for `--once`.
pub(super) fn text(model: &Model) -> String {
    let row = |name: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>8}")).collect();
        format!("{:<17}{cells}\n", shortened(name, 17))
    };
    let columns = &Column::ALL[1..];
    let columns: Vec<Column> = columns.iter().copied().filter(|&column| column != Column::Cached).collect();
    let heads: Vec<String> = columns.iter().map(|column| column.head().to_owned()).collect();
    let mut text = row("# name", &heads);
    for item in model.rows() {
        let cells: Vec<String> = columns.iter().map(|&column| shortened(&cell(&item, column), 8)).collect();
        text += &row(&item.item.name, &cells);
    }
    text
}
