//! What a program printed: in a file that has no name, so that it takes no memory and is gone with
//! the tool.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::Stdio;
use std::{env, fs};

use serde::Serialize;

/// Most characters of a line that are shown.
const SHOWN: usize = 52;

/// The output of one run.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
}

/// What is compared first: equal outputs have equal digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Digest {
    pub(super) bytes: u64,
    /// 64-bit FNV-1a.
    pub(super) fnv1a: u64,
}

/// Where two outputs differ first, and both there.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) line: u64,
    pub(super) left: String,
    pub(super) right: String,
}

impl Spool {
    pub(super) fn new() -> io::Result<Self> {
        let dir = env::temp_dir();
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        match options.clone().custom_flags(libc::O_TMPFILE).open(&dir) {
            Ok(file) => return Ok(Self { file }),
            // File systems without files that have no name; the kernel answers with one of these.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) => {}
            Err(error) => return Err(error),
        }
        for number in 0_u32.. {
            let path = dir.join(format!("ashlar-compare-{}-{number}", std::process::id()));
            match options.clone().create_new(true).open(&path) {
                Ok(file) => return fs::remove_file(&path).map(|()| Self { file }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// Returns the end that a program writes to.
    pub(super) fn writer(&self) -> io::Result<Stdio> {
        Ok(self.file.try_clone()?.into())
    }

    /// Reads it from the start.
    fn reader(&self) -> impl Read + '_ {
        ReadAt { file: &self.file, at: 0 }
    }

    pub(super) fn digest(&self) -> io::Result<Digest> {
        let (mut reader, mut block) = (self.reader(), vec![0; 1 << 16]);
        let mut digest = Digest { bytes: 0, fnv1a: 0xcbf2_9ce4_8422_2325 };
        loop {
            match reader.read(&mut block)? {
                0 => return Ok(digest),
                read => {
                    digest.bytes += read as u64;
                    for &byte in &block[..read] {
                        digest.fnv1a = (digest.fnv1a ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
                    }
                }
            }
        }
    }

    /// Returns where this output and another one differ first.
    pub(super) fn difference(&self, other: &Self) -> io::Result<Option<Difference>> {
        let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        let (mut at, mut line, mut line_start) = (0_u64, 1, 0);
        loop {
            let (a, b) = (fill(&self.file, &mut left, at)?, fill(&other.file, &mut right, at)?);
            let same = left[..a].iter().zip(&right[..b]).take_while(|(a, b)| a == b).count();
            for (index, _) in left[..same].iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
                line += 1;
                line_start = at + index as u64 + 1;
            }
            if same < a.max(b) {
                // A long line is shown from a little before the difference on.
                let from = line_start.max((at + same as u64).saturating_sub(20));
                return Ok(Some(Difference {
                    line,
                    left: excerpt(&self.file, from)?,
                    right: excerpt(&other.file, from)?,
                }));
            }
            if a == 0 {
                return Ok(None);
            }
            at += a as u64;
        }
    }

    /// Returns the last lines that are not empty, shortened.
    pub(super) fn last_lines(&self, count: usize) -> Vec<String> {
        let mut end = vec![0; 4096];
        let length = self.file.metadata().map_or(0, |meta| meta.len());
        let read = fill(&self.file, &mut end, length.saturating_sub(4096)).unwrap_or(0);
        let text = String::from_utf8_lossy(&end[..read]).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(count)..].iter().map(|line| printable(line, 72)).collect()
    }
}

struct ReadAt<'a> {
    file: &'a File,
    at: u64,
}

impl Read for ReadAt<'_> {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(block, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Reads a whole block, or all up to the end of the file.
fn fill(file: &File, block: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    loop {
        match file.read_at(&mut block[filled..], at + filled as u64)? {
            0 => return Ok(filled),
            read => filled += read,
        }
    }
}

/// The rest of a line.
fn excerpt(file: &File, from: u64) -> io::Result<String> {
    let mut block = vec![0; 4 * SHOWN];
    let read = fill(file, &mut block, from)?;
    let line = block[..read].split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    Ok(printable(&String::from_utf8_lossy(line), SHOWN))
}

/// A line that a terminal can show, of `most` characters.
fn printable(line: &str, most: usize) -> String {
    let clean: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.chars().count() <= most { clean } else { clean.chars().take(most - 3).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(text: &[u8]) -> Spool {
        let spool = Spool::new().unwrap();
        spool.file.write_all_at(text, 0).unwrap();
        spool
    }

    #[test]
    fn equal_outputs_have_equal_digests() {
        let known = spool(b"foobar").digest().unwrap();
        assert_eq!(known, Digest { bytes: 6, fnv1a: 0x8594_4171_f739_67e8 }, "the published test vector of FNV-1a");
        assert_ne!(spool(b"foobaz").digest().unwrap(), known);
        assert_eq!(spool(&vec![b'x'; 200_000]).digest().unwrap(), spool(&vec![b'x'; 200_000]).digest().unwrap());
    }

    #[test]
    fn the_first_difference_is_told_with_its_line() {
        let long: Vec<u8> = (0..50_000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        let mut other = long.clone();
        assert_eq!(spool(&long).difference(&spool(&other)).unwrap(), None);
        let at = long.windows(6).position(|six| six == b"40000\n").unwrap();
        other[at + 1] = b'x';
        let found = spool(&long).difference(&spool(&other)).unwrap().unwrap();
        assert_eq!(found, Difference { line: 40_001, left: "40000".to_owned(), right: "4x000".to_owned() });
        let shorter = spool(b"a\nb\n").difference(&spool(b"a\n")).unwrap().unwrap();
        assert_eq!(shorter, Difference { line: 2, left: "b".to_owned(), right: String::new() });
        let wide = [vec![b'-'; 5000], b"A".to_vec()].concat();
        let wider = [vec![b'-'; 5000], b"B\x1b".to_vec()].concat();
        let found = spool(&wide).difference(&spool(&wider)).unwrap().unwrap();
        assert_eq!(found.right, "--------------------B ");
    }

    #[test]
    fn the_last_lines_are_those_that_say_something() {
        assert_eq!(spool(b"one\n\ntwo\nthree\n\n").last_lines(2), ["two", "three"]);
        assert_eq!(spool(b"").last_lines(2), Vec::<String>::new());
        assert_eq!(spool(&[b'x'; 9000]).last_lines(1)[0].len(), 72);
    }
}
