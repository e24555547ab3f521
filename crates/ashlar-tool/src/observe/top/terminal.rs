//! The terminal of `ashlar top`: its second screen, without echo, and the keys that are pressed.
//!
//! The screen is drawn in bold and reversed text alone, so that is what the backend writes.

use core::fmt::Write as _;
use core::time::Duration;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::Modifier;
use ratatui_core::terminal::Terminal;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use termion::event::Key;
use termion::input::TermRead;
use termion::{clear, cursor, screen, style};

/// How often the size of the terminal is looked at while no key is pressed.
const LOOK: Duration = Duration::from_millis(200);

/// What ended a wait.
pub(super) enum Woken {
    Key(Key),
    Resized,
    /// The time is over.
    Due,
}

/// A terminal that shows the second screen. Dropped, it is as before; so it is after a panic.
pub(super) struct Screen {
    terminal: Terminal<Ansi>,
    keys: Receiver<io::Result<Key>>,
}

/// How the terminal was before.
static BEFORE: OnceLock<Termios> = OnceLock::new();

fn restore() {
    if let Some(before) = BEFORE.get() {
        let _ = tcsetattr(io::stdout(), OptionalActions::Now, before);
        print!("{}{}", screen::ToMainScreen, cursor::Show);
        let _ = io::stdout().flush();
    }
}

impl Screen {
    /// Takes the terminal of standard output.
    pub(super) fn open() -> io::Result<Screen> {
        let before = tcgetattr(io::stdout())?;
        let mut raw = before.clone();
        raw.make_raw();
        let _ = BEFORE.set(before);
        let tty = termion::get_tty()?;
        tcsetattr(io::stdout(), OptionalActions::Now, &raw)?;
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            hook(panic);
        }));
        print!("{}{}", screen::ToAlternateScreen, cursor::Hide);
        let (sender, keys) = channel();
        // It waits for a key when the tool ends, and ends with it.
        std::thread::spawn(move || {
            for key in tty.keys() {
                if sender.send(key).is_err() {
                    return;
                }
            }
        });
        let terminal = Terminal::new(Ansi::default())?;
        Ok(Screen { terminal, keys })
    }

    pub(super) fn terminal(&mut self) -> &mut Terminal<Ansi> {
        &mut self.terminal
    }

    /// Waits for a key, or for another size of the terminal, until a time.
    pub(super) fn wait(&self, until: Instant) -> io::Result<Woken> {
        let size = termion::terminal_size()?;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.keys.recv_timeout(left.min(LOOK)) {
                Ok(key) => return key.map(Woken::Key),
                Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(RecvTimeoutError::Timeout) if termion::terminal_size()? != size => return Ok(Woken::Resized),
                Err(RecvTimeoutError::Timeout) if left <= LOOK => return Ok(Woken::Due),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Writes cells as escape sequences; all of a drawing at once.
#[derive(Debug, Default)]
pub(super) struct Ansi {
    text: String,
    cursor: Position,
}

impl Ansi {
    fn put(&mut self, what: impl core::fmt::Display) {
        // A string takes everything.
        let _ = write!(self.text, "{what}");
    }
}

impl Backend for Ansi {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, cells: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut next = None;
        let mut look = Modifier::empty();
        for (x, y, cell) in cells {
            if next != Some((x, y)) {
                self.put(cursor::Goto(x + 1, y + 1));
            }
            next = Some((x + 1, y));
            if cell.modifier != look {
                look = cell.modifier;
                self.put(style::Reset);
                if look.contains(Modifier::BOLD) {
                    self.put(style::Bold);
                }
                if look.contains(Modifier::REVERSED) {
                    self.put(style::Invert);
                }
            }
            self.put(cell.symbol());
        }
        self.put(style::Reset);
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.put(cursor::Hide);
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.put(cursor::Show);
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(self.cursor)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.cursor = position.into();
        self.put(cursor::Goto(self.cursor.x + 1, self.cursor.y + 1));
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.put(clear::All);
        Ok(())
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        match region {
            ClearType::All => self.put(clear::All),
            ClearType::AfterCursor => self.put(clear::AfterCursor),
            ClearType::BeforeCursor => self.put(clear::BeforeCursor),
            ClearType::CurrentLine => self.put(clear::CurrentLine),
            ClearType::UntilNewLine => self.put(clear::UntilNewline),
        }
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        let (width, height) = termion::terminal_size()?;
        Ok(Size { width, height })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(self.text.as_bytes())?;
        self.text.clear();
        out.flush()
    }
}
