//! Keys, rates and the screen, without a terminal.

use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;
use termion::event::Key;

use super::model::{Item, Model, Sample};
use super::view::{self, Shown};
use super::{Action, pressed};
use crate::args::Column;
use crate::observe::report::Events;

fn sample(time: f64, sizes: &[(&str, u64, u64)]) -> Sample {
    let items = sizes.iter().map(|&(name, active, alloc_slow)| Item {
        name: name.to_owned(),
        active,
        bytes: active * 2048,
        live: active * 1024,
        events: Events { alloc_slow, ..Events::default() },
        ..Item::default()
    });
    Sample { time, items: items.collect() }
}

fn model() -> Model {
    let mut model = Model::new(sample(1.0, &[("small", 10, 0), ("large", 5000, 100)]), Column::Memory, String::new());
    model.add(sample(3.0, &[("small", 30, 8), ("large", 4000, 100), ("new", 1, 1)]));
    model
}

fn names(model: &Model) -> Vec<String> {
    model.rows().into_iter().map(|row| row.item.name).collect()
}

#[test]
fn rates_are_of_the_last_interval_and_growth_is_since_the_mark() {
    let mut model = model();
    let rows = model.rows();
    let small = rows.iter().find(|row| row.item.name == "small").unwrap();
    assert_eq!((small.growth, small.allocs, small.frees), (20 * 1024, 4.0, 0.0));
    assert_eq!(small.history, [10 * 1024, 30 * 1024]);
    let large = rows.iter().find(|row| row.item.name == "large").unwrap();
    assert_eq!((large.growth, large.allocs), (-1000 * 1024, 0.0));
    model.mark();
    assert!(model.rows().iter().all(|row| row.growth == 0));
}

#[test]
fn keys_sort_filter_and_select() {
    let (mut model, mut shown) = (model(), Shown::default());
    assert_eq!(names(&model), ["large", "small", "new"]);
    for key in ['>', '>'] {
        pressed(Key::Char(key), &mut model, &mut shown);
    }
    assert_eq!((model.sort, names(&model)), (Column::Growth, vec!["small".into(), "new".into(), "large".into()]));
    pressed(Key::Char('r'), &mut model, &mut shown);
    assert_eq!(names(&model), ["large", "new", "small"]);
    for key in ['/', 'l', 'a'] {
        pressed(Key::Char(key), &mut model, &mut shown);
    }
    assert!(shown.typing);
    pressed(Key::Char('\n'), &mut model, &mut shown);
    assert_eq!(names(&model), ["large"]);
    pressed(Key::Down, &mut model, &mut shown);
    assert_eq!(pressed(Key::Char('\n'), &mut model, &mut shown), Action::Open("large".into()));
    assert_eq!(pressed(Key::Esc, &mut model, &mut shown), Action::Close);
    assert_eq!(pressed(Key::Char('q'), &mut model, &mut shown), Action::Quit);
}

/// The screen of this size, line by line.
fn drawn(width: u16, height: u16, model: &Model, shown: &Shown) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, model, shown)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
    (0..height).map(line).collect()
}

#[test]
fn the_screen_has_a_head_the_rows_and_the_keys() {
    let mut model = model();
    let mut shown = Shown { head: vec!["python3 (PID 1)".to_owned()], ..Shown::default() };
    let lines = drawn(80, 10, &model, &shown);
    assert!(lines[0].starts_with("python3 (PID 1)"), "{lines:?}");
    assert!(lines[2].starts_with("name ") && lines[2].contains("*KiB"), "{lines:?}");
    assert!(lines[3].starts_with("large ") && lines[3].contains("8000") && lines[3].contains("-1000"), "{lines:?}");
    assert!(lines[9].starts_with("q quit") && lines[9].contains("Space pause"), "{lines:?}");
    let wide = drawn(160, 10, &model, &shown);
    assert!(wide[2].contains("cached") && wide[3].contains('█'), "{wide:?}");
    shown.detail = Some("all of one cache".to_owned());
    let lines = drawn(80, 10, &model, &shown);
    assert!(lines[2].starts_with("all of one cache") && lines[9].starts_with("Esc back"), "{lines:?}");
    assert_eq!(pressed(Key::Char('\n'), &mut model, &mut shown), Action::Close);
    shown.detail = Some("one\ntwo\nthree".to_owned());
    for key in [Key::Down, Key::PageDown, Key::Up] {
        assert_eq!(pressed(key, &mut model, &mut shown), Action::None);
    }
    assert!(drawn(80, 10, &model, &shown)[2].starts_with("two"), "{}", shown.scrolled);
    shown.scrolled = 2;
    // No size makes it panic.
    for (width, height) in [(1, 1), (5, 2), (20, 3), (300, 100)] {
        drawn(width, height, &model, &shown);
    }
}
