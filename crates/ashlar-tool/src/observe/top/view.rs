//! Draws `ashlar top`: a head, the table, and a line of keys. Bold and reversed text alone, which
//! light and dark terminals show alike.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState};

use super::model::{Model, Row};
use crate::args::Column;
use crate::observe::text::{short, shortened};

/// What is on the screen beside the rows.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// What is true of the whole process or machine.
    pub(super) head: Vec<String>,
    /// All figures of one cache, in place of the table.
    pub(super) detail: Option<String>,
    /// The filter is being typed.
    pub(super) typing: bool,
    pub(super) paused: bool,
}

const KEYS: &str = "q quit  Enter detail  </> sort  r reverse  / filter  m mark  Space pause";
const KEYS_OF_DETAIL: &str = "Esc back  q quit";
/// From this width on there are a column of free objects and curves.
const WIDE: u16 = 100;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, screen: &Screen) {
    let head = screen.head.len() as u16;
    let parts = [Constraint::Length(head + 1), Constraint::Min(1), Constraint::Length(1)];
    let [top, middle, bottom] = Layout::vertical(parts).areas(frame.area());
    let mut lines: Vec<Line<'_>> = screen.head.iter().map(|line| Line::from(line.as_str())).collect();
    if let Some(first) = lines.first_mut() {
        first.style = Style::new().add_modifier(Modifier::BOLD);
    }
    frame.render_widget(Paragraph::new(lines), top);
    match &screen.detail {
        Some(text) => frame.render_widget(Paragraph::new(Text::from(text.as_str())), middle),
        None => draw_table(frame, middle, model),
    }
    let keys = match () {
        () if screen.typing => format!("filter: {}_", model.filter),
        () if screen.detail.is_some() => KEYS_OF_DETAIL.to_owned(),
        () => {
            let paused = if screen.paused { "paused  " } else { "" };
            let filter = if model.filter.is_empty() { String::new() } else { format!("filter {}  ", model.filter) };
            format!("{paused}{filter}{KEYS}")
        }
    };
    let keys = shortened(&keys, usize::from(bottom.width));
    frame.render_widget(Paragraph::new(keys).style(Style::new().add_modifier(Modifier::REVERSED)), bottom);
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let wide = area.width >= WIDE;
    let columns: Vec<Column> = Column::ALL.into_iter().filter(|&column| wide || column != Column::Cached).collect();
    let mut widths = vec![Constraint::Min(20)];
    widths.extend(columns.iter().skip(1).map(|&column| Constraint::Length(width(column))));
    let mut heads: Vec<Cell<'_>> = columns
        .iter()
        .map(|&column| {
            let mark = match (column == model.sort, model.reversed) {
                (false, _) => "",
                (true, false) => "*",
                (true, true) => "^",
            };
            let head = Line::from(format!("{mark}{}", column.head()));
            Cell::from(if column == Column::Name { head } else { head.right_aligned() })
        })
        .collect();
    if wide {
        widths.push(Constraint::Length(20));
        heads.push(Cell::from("live memory"));
    }
    let rows = model.rows();
    let selected = model.selected.min(rows.len().saturating_sub(1));
    let rows = rows.iter().map(|row| {
        let mut cells: Vec<Cell<'_>> = columns
            .iter()
            .map(|&column| {
                let line = Line::from(cell(row, column));
                Cell::from(if column == Column::Name { line } else { line.right_aligned() })
            })
            .collect();
        if wide {
            cells.push(Cell::from(curve(&row.history, 20)));
        }
        TableRow::new(cells)
    });
    let table = Table::new(rows, widths)
        .header(TableRow::new(heads).style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(Some(selected)));
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
