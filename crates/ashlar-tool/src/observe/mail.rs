//! Letters to a process: the sender's side of `ashlar::mailbox`.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ashlar::mailbox::{ANSWERED, ASKED, GARBLED, IDLE, Letter, Mailbox, WORDS};
use ashlar::window::{self, Window};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::memory::{Memory, ReadError};

/// The time between two looks at the mailbox.
const LOOK: Duration = Duration::from_millis(20);
/// The number of times that a letter is sent if a tool in another mount of /proc writes over it.
const TRIES: u32 = 5;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The options of the process closed the mailbox.
    Closed,
    /// The process took nothing up within the time, and the letter was withdrawn.
    Idle,
    /// The process took the letter up, and does not answer.
    Busy,
    /// Other tools write to the same mailbox.
    Crowded,
    /// The answer makes no sense.
    Nonsense,
    /// The kernel refused a write; why.
    Refused(std::io::Error),
    Read(ReadError),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("it was started with control=off, which closes it to this command"),
            Self::Idle => f.write_str(
                "it is idle: it made no call that takes requests up. The request was withdrawn, and nothing was changed; \
                 a longer --timeout waits for longer",
            ),
            Self::Busy => f.write_str("it took the request up, and has not finished it within the time"),
            Self::Crowded => f.write_str("other tools send it requests at the same time: try again"),
            Self::Nonsense => f.write_str("its answer is corrupt"),
            Self::Refused(error) => write!(f, "its memory cannot be written: {error}"),
            Self::Read(error) => error.fmt(f),
        }
    }
}

impl From<ReadError> for NoAnswer {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// Writes all bytes from the address `at` on.
fn write(memory: &File, at: u64, bytes: &[u8]) -> Result<(), NoAnswer> {
    if at.checked_add(bytes.len() as u64).is_none_or(|end| end > i64::MAX as u64) {
        return Err(ReadError::Unmapped(at).into());
    }
    memory.write_all_at(bytes, at).map_err(|error| match error.raw_os_error() {
        Some(libc::EIO | libc::EFAULT) => ReadError::Unmapped(at).into(),
        Some(libc::ESRCH) => ReadError::Ended.into(),
        _ if error.kind() == std::io::ErrorKind::WriteZero => ReadError::Ended.into(),
        _ => NoAnswer::Refused(error),
    })
}

/// Sends a letter to the allocator that has this window, and waits for the answer.
pub(super) fn ask(memory: &File, window: &Window, letter: &Letter, timeout: Duration) -> Result<Letter, NoAnswer> {
    if window.places.mailbox == 0 {
        return Err(NoAnswer::Closed);
    }
    let letters = Letters { memory, window, until: Instant::now() + timeout };
    // Two tools take turns. The lock ends with this one, and the process does not know of it.
    while flock(memory, FlockOperation::NonBlockingLockExclusive).is_err_and(|error| error == Errno::WOULDBLOCK) {
        if letters.is_late() {
            return Err(NoAnswer::Crowded);
        }
        thread::sleep(LOOK);
    }
    for _ in 0..TRIES {
        let mut letter = *letter;
        letter.number = number();
        match letters.exchange(&letter)? {
            Some(answer) if answer.code != GARBLED => return Ok(answer),
            _ => {}
        }
    }
    Err(NoAnswer::Crowded)
}

/// Returns a number for a letter. Two tools choose the same one by chance only.
fn number() -> u64 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let mixed = time ^ u64::from(std::process::id()) << 40 ^ u64::from(COUNT.fetch_add(1, Ordering::Relaxed)) << 32;
    mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1
}

struct Letters<'a> {
    memory: &'a File,
    window: &'a Window,
    until: Instant,
}

impl Letters<'_> {
    fn at(&self, offset: usize) -> u64 {
        self.window.places.mailbox.saturating_add(offset as u64)
    }

    fn state(&self) -> Result<u8, NoAnswer> {
        let mut state = [0];
        self.memory.read(self.at(Mailbox::STATE), &mut state)?;
        Ok(state[0])
    }

    fn set_state(&self, state: u8) -> Result<(), NoAnswer> {
        write(self.memory, self.at(Mailbox::STATE), &[state])
    }

    /// Returns whether the letter of this number was taken up.
    fn is_taken(&self, number: u64) -> Result<bool, NoAnswer> {
        let mut word = [0; 8];
        self.memory.read(self.at(Mailbox::LAST_TAKEN), &mut word)?;
        Ok(u64::from_ne_bytes(word) == number)
    }

    /// Notes in the process that there is work.
    fn wake(&self) -> Result<(), NoAnswer> {
        write(self.memory, self.window.places.wanted, &window::ASKED.to_ne_bytes())
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Writes a letter once the mailbox is free, and waits for its answer. Returns `None` if it was
    /// written over.
    fn exchange(&self, letter: &Letter) -> Result<Option<Letter>, NoAnswer> {
        // The letter of another tool, or one whose sender ended.
        while ![IDLE, ANSWERED].contains(&self.state()?) {
            if self.is_late() {
                return self.withdraw(letter.number);
            }
            self.wake()?;
            thread::sleep(LOOK);
        }
        let bytes: Vec<u8> = letter.to_words().iter().flat_map(|word| word.to_ne_bytes()).collect();
        write(self.memory, self.at(Mailbox::QUESTION), &bytes)?;
        self.set_state(ASKED)?;
        self.wait(letter.number)
    }

    fn wait(&self, number: u64) -> Result<Option<Letter>, NoAnswer> {
        loop {
            match self.state()? {
                ANSWERED => return self.answer(number),
                ASKED => self.wake()?,
                // Another tool withdrew a letter.
                IDLE if !self.is_taken(number)? => return Ok(None),
                _ => {}
            }
            if self.is_late() {
                return self.withdraw(number);
            }
            thread::sleep(LOOK);
        }
    }

    /// Takes the letter back, unless the process took it up at the last moment.
    fn withdraw(&self, number: u64) -> Result<Option<Letter>, NoAnswer> {
        if self.state()? == ASKED {
            self.set_state(IDLE)?;
            thread::sleep(LOOK);
        }
        match self.is_taken(number)? {
            false => Err(NoAnswer::Idle),
            true if self.state()? == ANSWERED => self.answer(number),
            true => Err(NoAnswer::Busy),
        }
    }

    /// Reads the answer; `None` if it is that of another letter.
    fn answer(&self, number: u64) -> Result<Option<Letter>, NoAnswer> {
        let mut bytes = [0; WORDS * 8];
        self.memory.read(self.at(Mailbox::ANSWER), &mut bytes)?;
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        }
        match Letter::from_words(&words) {
            Some(answer) if answer.number == number => Ok(Some(answer)),
            Some(_) => Ok(None),
            None => Err(NoAnswer::Nonsense),
        }
    }
}
