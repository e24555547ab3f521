//! `ASHLAR_DEBUG`: which caches are debugged, and how. Its text is in the grammar of the kernel's
//! boot parameter `slub_debug`.
//!
//! A text is blocks between semicolons. A block is letters, and behind a comma the names of caches,
//! with commas between them; a name that ends in `*` stands for all that begin like it. A block
//! without names holds for all other caches. A block without letters means `FZPU`, and so does an
//! empty text. The first block with a name that fits decides; of blocks without names the last one
//! does.
//!
//! Source: `parse_slub_debug_flags`, `setup_slub_debug` and `kmem_cache_flags` of mm/slub.c. As
//! there, the text is kept, and read again for each cache that is made.

use core::fmt;

use super::values::number;
use crate::engine::DebugFlags;
use crate::engine::debug::failures::Failures;

/// The longest text, in bytes.
const MOST: usize = 1023;

/// Which debugging a cache is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Debugging {
    pub(crate) flags: DebugFlags,
    /// `O`: no flag that makes objects larger, if slabs would need a higher order for them.
    pub(crate) low_orders: bool,
}

impl Debugging {
    pub(crate) const NONE: Debugging = Debugging { flags: DebugFlags::NONE, low_orders: false };
    const DEFAULT: Debugging = Debugging { flags: DebugFlags::DEFAULT, low_orders: false };
}

/// A value of `ASHLAR_DEBUG` that is not in its grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DebugError {
    /// A letter that stands for nothing.
    Letter(char),
    /// A text of more bytes than are kept.
    TooLong(usize),
}

#[place(cold)]
impl fmt::Display for DebugError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            DebugError::Letter(letter) => write!(
                f,
                "option `{letter}`: expected letters of F, Z, P, U, T, A, O and -, then names of caches, each behind a comma"
            ),
            DebugError::TooLong(bytes) => write!(f, "{bytes} bytes: expected at most {MOST}"),
        }
    }
}

impl core::error::Error for DebugError {}

/// Whether `text` is a good value of `ASHLAR_DEBUG`.
///
/// # Errors
/// What is wrong with it.
pub fn check_debug(text: &str) -> Result<(), DebugError> {
    Text::of(text).map(|_| ())
}

/// Whether `text` is a good value of `ASHLAR_FAILSLAB`.
///
/// # Errors
/// What was expected.
pub fn check_failslab(text: &str) -> Result<(), &'static str> {
    parse_failslab(text).map(|_| ()).ok_or(FAILSLAB_EXPECTED)
}

/// A text that was found good.
pub(super) struct Text {
    bytes: [u8; MOST],
    /// The length of the text; `None` if nothing was said.
    len: Option<u16>,
}

#[place(cold)]
impl Text {
    pub(super) const NONE: Text = Text { bytes: [0; MOST], len: None };

    /// Keeps a text.
    pub(super) fn of(text: &str) -> Result<Text, DebugError> {
        let mut kept = Text { bytes: [0; MOST], len: Some(text.len() as u16) };
        kept.bytes.get_mut(..text.len()).ok_or(DebugError::TooLong(text.len()))?.copy_from_slice(text.as_bytes());
        blocks(text).try_for_each(|(letters, _)| read_letters(letters).map(|_| ()))?;
        Ok(kept)
    }

    /// Returns which debugging a cache is to have.
    pub(super) fn of_cache(&self, name: &str) -> Debugging {
        let Some(len) = self.len else { return Debugging::NONE };
        let text = core::str::from_utf8(&self.bytes[..usize::from(len)]).unwrap_or_default();
        if text.is_empty() {
            return Debugging::DEFAULT;
        }
        let mut others = Debugging::NONE;
        for (letters, names) in blocks(text) {
            let block = read_letters(letters).unwrap_or(Debugging::NONE);
            match names {
                None => others = block,
                Some(names) if names.split(',').any(|pattern| fits(pattern, name)) => return block,
                Some(_) => {}
            }
        }
        others
    }
}

/// Splits a text into blocks: letters, and names if there are some.
#[place(cold)]
fn blocks(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let blocks = text.split(';').map(str::trim).filter(|block| !block.is_empty());
    blocks.map(|block| block.split_once(',').map_or((block, None), |(letters, names)| (letters, Some(names))))
}

/// Whether a name is that of a pattern.
#[place(cold)]
fn fits(pattern: &str, name: &str) -> bool {
    let pattern = pattern.trim();
    match pattern.split_once('*') {
        Some((start, _)) => name.starts_with(start),
        None => !pattern.is_empty() && pattern == name,
    }
}

#[place(cold)]
fn read_letters(letters: &str) -> Result<Debugging, DebugError> {
    let letters = letters.trim();
    if letters.is_empty() {
        return Ok(Debugging::DEFAULT);
    }
    let mut found = Debugging::NONE;
    for letter in letters.chars() {
        match letter {
            '-' => found.flags = DebugFlags::NONE,
            'o' | 'O' => found.low_orders = true,
            _ => found.flags = found.flags.with(DebugFlags::of_letter(letter).ok_or(DebugError::Letter(letter))?),
        }
    }
    Ok(found)
}

/// What `ASHLAR_FAILSLAB` is to be.
pub(super) const FAILSLAB_EXPECTED: &str = "expected INTERVAL,PROBABILITY,SPACE,TIMES: four numbers, a probability of at most 100, and -1 times for any number";

/// Reads the value of `ASHLAR_FAILSLAB`: the kernel's boot parameter `failslab`.
#[place(cold)]
pub(super) fn parse_failslab(text: &str) -> Option<Failures> {
    let mut numbers = text.split(',').map(str::trim);
    let interval = number(numbers.next()?, 0, u32::MAX as usize)? as u32;
    let probability = number(numbers.next()?, 0, 100)? as u32;
    let space = number(numbers.next()?, 0, usize::MAX)? as u64;
    let times = match numbers.next()? {
        "-1" => -1,
        times => number(times, 0, i32::MAX as usize)? as i64,
    };
    let failures = Failures { interval, probability, space, times };
    numbers.next().is_none().then_some(failures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn of(text: &str, name: &str) -> std::string::String {
        let found = Text::of(text).expect("good").of_cache(name);
        std::format!("{}{}", found.flags, if found.low_orders { "+O" } else { "" })
    }

    #[test]
    fn the_kernels_examples_mean_what_they_mean_there() {
        // Documentation/admin-guide/mm/slab.rst.
        for (text, name, flags) in [
            ("", "anything", "FZPU"),
            ("P", "anything", "P"),
            (",dentry", "dentry", "FZPU"),
            (",dentry", "inode", "-"),
            ("FZ", "inode", "FZ"),
            ("FZ,dentry", "dentry", "FZ"),
            ("FZ,dentry", "dentry2", "-"),
            ("Z,kmalloc-*,task_struct", "kmalloc-64", "Z"),
            ("Z,kmalloc-*,task_struct", "task_struct", "Z"),
            ("PZ,dentry;U,kmalloc-*", "kmalloc-8", "U"),
            ("PZ,dentry;U,kmalloc-*", "dentry", "ZP"),
            ("PZ,dentry;U,kmalloc-*", "mm", "-"),
            ("FZ;-,zs_handle,zspage", "zspage", "-"),
            ("FZ;-,zs_handle,zspage", "mm", "FZ"),
            ("O", "mm", "-+O"),
            ("FPZUO", "mm", "FZPU+O"),
            ("fzputa", "mm", "FZPUTA"),
            ("FZ-P", "mm", "P"),
            (";;P,a;;", "a", "P"),
            ("F;Z", "a", "Z"),
            ("F,a;Z,a", "a", "F"),
            ("F,a*b", "axx", "F"),
            (" P , a b , c ", "a b", "P"),
        ] {
            assert_eq!(of(text, name), flags, "{text} for {name}");
        }
    }

    #[test]
    fn what_is_not_in_the_grammar_is_named() {
        for (text, named) in [("X", "`X`"), ("FZ,a;Pé", "`é`"), ("F Z", "` `"), ("1", "`1`")] {
            let error = Text::of(text).map(|_| ()).expect_err(text);
            assert!(error.to_string().contains(named), "{error}");
        }
        let long = "F".repeat(MOST + 1);
        assert_eq!(Text::of(&long).map(|_| ()).expect_err("too long"), DebugError::TooLong(MOST + 1));
        assert!(Text::of(&long[1..]).is_ok());
    }

    #[test]
    fn failslab_has_four_numbers() {
        let found = parse_failslab("10, 50,4096,-1").expect("good");
        assert_eq!(found, Failures { interval: 10, probability: 50, space: 4096, times: -1 });
        for bad in ["", "1", "1,2,3", "1,101,0,-1", "1,2,3,-2", "1,2,3,4,5", "a,2,3,4", "1,2,-3,4"] {
            assert!(parse_failslab(bad).is_none(), "{bad}");
        }
    }
}
