//! The mailbox: how a tool asks this process for something, such as another value of a tunable.
//!
//! The window (`base::window`) names the address of the mailbox. The tool writes a [`Letter`] and
//! then the state byte through `/proc/PID/mem`, for which it needs the rights of a debugger. The
//! next tick, or without ticks the next slow path, takes the letter, does what it asks, and leaves
//! an answer. Nothing interrupts the process, and fast paths do not look here.
//!
//! | state | meaning | set by |
//! |---|---|---|
//! | [`IDLE`] | no letter, or one that its sender withdrew | the tool |
//! | [`ASKED`] | there is a letter | the tool |
//! | [`TAKEN`] | a thread of the process does what it asks | the process |
//! | [`ANSWERED`] | the answer is there; the next letter may be written | the process |
//!
//! Writes through `/proc/PID/mem` are not atomic beyond a byte, and two tools may write at once.
//! So the state is one byte, a letter has a checksum and a number that its sender chose at random,
//! and the answer has the number of its letter. A letter that was written over by another one, or
//! by anything else, is answered with [`GARBLED`] and does nothing. `busy` is set while a thread
//! does the work, and the tool does not write it. So there is one such thread at a time, whatever
//! the state byte says.
//!
//! In the child of a fork the mailbox is empty.

use core::fmt;

use crate::base::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// See the module.
pub const IDLE: u8 = 0;
/// See the module.
pub const ASKED: u8 = 1;
/// See the module.
pub const TAKEN: u8 = 2;
/// See the module.
pub const ANSWERED: u8 = 3;

/// Codes of letters: what is asked for.
pub mod ask {
    /// Set a tunable. Text: `NAME.KEY=VALUE`. Answers with the old value, the new one, and the
    /// number of caches.
    pub const TUNE: u32 = 1;
    /// Return the free slabs of a cache, or of all. Text: its name, or nothing. Answers with the
    /// bytes of slabs before and after, and the number of caches.
    pub const SHRINK: u32 = 2;
    /// Return all free memory to the system. Answers with the number of pages.
    pub const REAP: u32 = 3;
    /// Check the free objects of a cache, or of all. Text: its name, or nothing. Answers with the
    /// number of slabs, of objects, and of corrupt slabs, and the address of the first of these.
    pub const VALIDATE: u32 = 4;
    /// Start a heap profile. Text: bytes between samples.
    pub const PROFILE_START: u32 = 5;
    /// Stop the heap profile. No text.
    pub const PROFILE_STOP: u32 = 6;
}

/// Code of an answer: it was done.
pub const DONE: u32 = 0;
/// Code of an answer: this version does not know what was asked for.
pub const UNKNOWN: u32 = 1;
/// Code of an answer: the letter was not whole.
pub const GARBLED: u32 = 2;
/// Code of an answer: it was not done, and the text says why.
pub const REFUSED: u32 = 3;

/// The numbers in a letter.
pub const NUMBERS: usize = 4;
/// The most bytes of text in a letter. Models have none, because loom explores every word.
pub const TEXT: usize = if cfg!(ashlar_loom) { 0 } else { 192 };
const HEAD: usize = if cfg!(ashlar_loom) { 3 } else { 3 + NUMBERS };
/// The words of a letter.
pub const WORDS: usize = HEAD + TEXT / 8;

/// A question, or the answer to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Letter {
    /// The number that the sender of the question chose; not 0.
    pub number: u64,
    /// What is asked for, or how it went.
    pub code: u32,
    /// Numbers whose meaning depends on the code.
    pub numbers: [u64; NUMBERS],
    text: [u8; TEXT],
    len: u32,
}

#[place(cold)]
impl Letter {
    /// Returns a letter without text.
    pub const fn new(number: u64, code: u32) -> Letter {
        Letter { number, code, numbers: [0; NUMBERS], text: [0; TEXT], len: 0 }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        let bytes = self.text.get(..self.len as usize).unwrap_or_default();
        core::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Returns the words of the letter.
    pub fn to_words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        (words[0], words[2]) = (self.number, u64::from(self.code) | u64::from(self.len) << 32);
        for (word, number) in words[3..HEAD].iter_mut().zip(self.numbers) {
            *word = number;
        }
        for (word, bytes) in words[HEAD..].iter_mut().zip(self.text.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        }
        words[1] = checksum(&words);
        words
    }

    /// Returns the letter that has these words, which may be any; `None` if it is not whole.
    pub fn from_words(words: &[u64; WORDS]) -> Option<Letter> {
        let mut letter = Letter::new(words[0], words[2] as u32);
        letter.len = (words[2] >> 32) as u32;
        for (number, word) in letter.numbers.iter_mut().zip(&words[3..HEAD]) {
            *number = *word;
        }
        for (bytes, word) in letter.text.chunks_exact_mut(8).zip(&words[HEAD..]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let is_text = letter.text.get(..letter.len as usize).is_some_and(|text| core::str::from_utf8(text).is_ok());
        (letter.number != 0 && words[1] == checksum(words) && is_text).then_some(letter)
    }
}

impl fmt::Debug for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}: {} {:?} `{}`", self.number, self.code, self.numbers, self.text())
    }
}

/// Appends text; what does not fit is left out.
#[place(cold)]
impl fmt::Write for Letter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let start = self.len as usize;
        let mut take = text.len().min(TEXT.saturating_sub(start));
        while !text.is_char_boundary(take) {
            take -= 1;
        }
        self.text[start..start + take].copy_from_slice(&text.as_bytes()[..take]);
        self.len += take as u32;
        Ok(())
    }
}

/// Returns the checksum of a letter: all words but the checksum itself, by Fowler, Noll and Vo.
#[inline(never)]
#[place(cold)]
fn checksum(words: &[u64; WORDS]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for word in words.iter().take(1).chain(&words[2..]) {
        sum = (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    }
    sum
}

/// Where questions and answers lie. The tool knows the offsets of the fields.
#[derive(Debug)]
#[repr(C)]
pub struct Mailbox {
    state: AtomicU8,
    /// 1 while a thread does what a letter asks.
    busy: AtomicU32,
    /// The number of the letter that was taken last.
    taken: AtomicU64,
    question: [AtomicU64; WORDS],
    answer: [AtomicU64; WORDS],
}

impl Mailbox {
    /// Offset of the state byte.
    pub const STATE: usize = core::mem::offset_of!(Mailbox, state);
    /// Offset of the number of the letter that was taken last.
    pub const LAST_TAKEN: usize = core::mem::offset_of!(Mailbox, taken);
    /// Offset of the words of the question.
    pub const QUESTION: usize = core::mem::offset_of!(Mailbox, question);
    /// Offset of the words of the answer.
    pub const ANSWER: usize = core::mem::offset_of!(Mailbox, answer);

    #[cfg(not(ashlar_loom))]
    pub(crate) const fn new() -> Mailbox {
        Mailbox {
            state: AtomicU8::new(IDLE),
            busy: AtomicU32::new(0),
            taken: AtomicU64::new(0),
            question: [const { AtomicU64::new(0) }; WORDS],
            answer: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    #[cfg(ashlar_loom)]
    pub(crate) fn new() -> Mailbox {
        Mailbox {
            state: AtomicU8::new(IDLE),
            busy: AtomicU32::new(0),
            taken: AtomicU64::new(0),
            question: core::array::from_fn(|_| AtomicU64::new(0)),
            answer: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Takes a letter, if there is one and no other thread is at work, has `work` answer it, and
    /// leaves the answer. `work` may take locks, and may call this function again, which then does
    /// nothing.
    #[place(background)]
    pub(crate) fn serve(&self, work: impl FnOnce(&Letter) -> Letter) {
        if self.state.load(Ordering::Relaxed) != ASKED || self.busy.swap(1, Ordering::Acquire) != 0 {
            return;
        }
        if self.state.compare_exchange(ASKED, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            let mut words = [0; WORDS];
            for (word, place) in words.iter_mut().zip(&self.question) {
                *word = place.load(Ordering::Relaxed);
            }
            self.taken.store(words[0], Ordering::Release);
            let mut answer = match Letter::from_words(&words) {
                Some(letter) => work(&letter),
                None => Letter::new(0, GARBLED),
            };
            answer.number = words[0];
            for (place, word) in self.answer.iter().zip(answer.to_words()) {
                place.store(word, Ordering::Relaxed);
            }
            self.state.store(ANSWERED, Ordering::Release);
        }
        self.busy.store(0, Ordering::Release);
    }

    /// Empties the mailbox in the child of a fork, in which no thread serves it.
    pub(crate) fn after_fork_in_child(&self) {
        self.state.store(IDLE, Ordering::Relaxed);
        self.busy.store(0, Ordering::Relaxed);
    }

    /// Writes a question as a tool does.
    #[cfg(test)]
    pub(crate) fn ask(&self, words: &[u64; WORDS]) {
        for (place, word) in self.question.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        self.state.store(ASKED, Ordering::Release);
    }

    /// Returns the answer as a tool reads it: its words, once the state says so.
    #[cfg(test)]
    pub(crate) fn answer(&self) -> Option<[u64; WORDS]> {
        let answered = self.state.load(Ordering::Acquire) == ANSWERED;
        answered.then(|| core::array::from_fn(|at| self.answer[at].load(Ordering::Relaxed)))
    }
}

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
    use super::*;
    use core::fmt::Write;
    use proptest::prelude::*;
    use std::prelude::rust_2024::*;

    fn letter(number: u64, code: u32, numbers: [u64; NUMBERS], text: &str) -> Letter {
        let mut letter = Letter::new(number, code);
        letter.numbers = numbers;
        let _ = letter.write_str(text);
        letter
    }

    proptest! {
        #[test]
        fn a_letter_arrives_as_it_was_sent(
            number in 1u64.., code: u32, numbers: [u64; NUMBERS], text in "\\PC{0,300}",
        ) {
            let sent = letter(number, code, numbers, &text);
            prop_assert!(text.starts_with(sent.text()) && sent.text().len() <= TEXT);
            prop_assert!(text.len() > TEXT - 3 || sent.text() == text);
            prop_assert_eq!(Letter::from_words(&sent.to_words()), Some(sent));
        }

        #[test]
        fn a_letter_with_a_changed_bit_is_not_taken(
            number in 1u64.., code: u32, text in "[a-z]{0,100}", word in 0..WORDS, bit in 0..64,
        ) {
            let mut words = letter(number, code, [7; NUMBERS], &text).to_words();
            words[word] ^= 1u64 << bit;
            prop_assert_eq!(Letter::from_words(&words), None);
        }

        #[test]
        fn any_words_are_answered_and_none_of_them_is_worked_on(words in prop::array::uniform31(any::<u64>())) {
            let mailbox = Mailbox::new();
            mailbox.ask(&words);
            mailbox.serve(|letter| unreachable!("{letter:?} is no letter"));
            let answer = mailbox.answer().expect("an answer");
            prop_assert_eq!((answer[0], answer[2] as u32), (words[0], GARBLED));
        }
    }

    #[test]
    fn a_letter_whose_length_or_text_is_wrong_is_not_taken() {
        let whole = letter(1, ask::REAP, [0; NUMBERS], "name").to_words();
        let changed = |change: fn(&mut [u64; WORDS])| {
            let mut words = whole;
            change(&mut words);
            words[1] = checksum(&words);
            Letter::from_words(&words)
        };
        assert!(changed(|_| {}).is_some());
        assert_eq!(changed(|words| words[2] |= (TEXT as u64 + 1) << 32), None, "longer than a letter");
        assert_eq!(changed(|words| words[2] |= u64::MAX << 32), None);
        assert_eq!(changed(|words| words[HEAD] = 0xff), None, "not UTF-8");
        assert_eq!(changed(|words| words[0] = 0), None, "without a number");
    }

    #[test]
    fn work_that_serves_again_finds_nothing_to_do() {
        let mailbox = Mailbox::new();
        mailbox.serve(|_| unreachable!("there is no letter"));
        mailbox.ask(&Letter::new(5, ask::REAP).to_words());
        mailbox.serve(|letter| {
            // The sender withdraws the letter and writes another one meanwhile.
            mailbox.ask(&Letter::new(6, ask::REAP).to_words());
            mailbox.serve(|_| unreachable!("another thread is at work"));
            Letter::new(0, letter.code)
        });
        let answer = mailbox.answer().expect("an answer");
        assert_eq!((answer[0], answer[2] as u32), (5, ask::REAP));
        mailbox.ask(&Letter::new(7, ask::REAP).to_words());
        mailbox.after_fork_in_child();
        mailbox.serve(|_| unreachable!("the child was asked for nothing"));
    }
}
