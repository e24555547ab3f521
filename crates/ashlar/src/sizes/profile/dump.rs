//! Writes a profile as text, for the tool.
//!
//! | line | fields |
//! |---|---|
//! | `ashlar-profile 2` | the version of the format |
//! | `rate` `pid` `now` `started` | a number each; times in milliseconds |
//! | `counts` | samples taken, freed, lost, truncated, nested |
//! | `site` | what is known of a site: see below |
//! | `live` | number of its site, address, size, rate, milliseconds of age, thread, its name |
//! | `maps` | the rest is `/proc/self/maps` |
//!
//! The fields of a site, in this order: its number, the object size of the cache (0: large), the
//! extent, the samples and their bytes, and the objects and bytes that these stand for. The name of
//! the cache follows after a `.`, then the addresses, innermost first.
//!
//! Numbers are hexadecimal. So are names, two digits for each byte.

use super::samples::{self, BYTES, BYTES_FOR, COUNT, HEAD, Live, NAME, OBJECTS_FOR, SHAPE, Snapshot};
use super::{RATE, STARTED_MS};
use crate::base::os;
use crate::base::sync::Ordering;

/// The first line.
pub(crate) const FORMAT: &[u8] = b"ashlar-profile 2\n";

/// Text on its way to a file.
struct Out {
    file: i32,
    bytes: [u8; 4096],
    len: usize,
    good: bool,
}

#[place(cold)]
impl Out {
    fn flush(&mut self) {
        if self.good {
            self.good = os::write_all(self.file, self.bytes.get(..self.len).unwrap_or(&[])).is_ok();
        }
        self.len = 0;
    }

    fn text(&mut self, text: &[u8]) {
        for &byte in text {
            if self.len == self.bytes.len() {
                self.flush();
            }
            if let Some(place) = self.bytes.get_mut(self.len) {
                *place = byte;
            }
            self.len += 1;
        }
    }

    fn number(&mut self, number: u64) {
        let digits = number.checked_ilog2().unwrap_or(0) / 4 + 1;
        self.text(b" ");
        for place in (0..digits).rev() {
            self.digit((number >> (4 * place)) as u8);
        }
    }

    fn digit(&mut self, digit: u8) {
        let digit = digit & 15;
        self.text(&[if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }]);
    }

    fn name(&mut self, bytes: impl Iterator<Item = u8>) {
        self.text(b" .");
        for byte in bytes.take_while(|&byte| byte != 0) {
            self.digit(byte >> 4);
            self.digit(byte);
        }
    }

    fn line(&mut self, word: &[u8], numbers: &[u64]) {
        self.text(word);
        numbers.iter().for_each(|&number| self.number(number));
        self.text(b"\n");
    }

    fn live(&mut self, live: &Live, now: u64) {
        if live.address == 0 {
            return;
        }
        let Live { address, size, born_ms, site, rate, thread, name, .. } = *live;
        self.text(b"live");
        let age = now.saturating_sub(born_ms);
        let numbers = [u64::from(site), address as u64, size as u64, u64::from(rate), age, u64::from(thread)];
        numbers.iter().for_each(|&number| self.number(number));
        self.name(name.into_iter());
        self.text(b"\n");
    }

    fn all(&mut self, table: &Snapshot) {
        let now = os::now_ms();
        self.text(FORMAT);
        self.line(b"rate", &[RATE.load(Ordering::Relaxed) as u64]);
        self.line(b"pid", &[u64::from(os::process_id())]);
        self.line(b"now", &[now]);
        self.line(b"started", &[STARTED_MS.load(Ordering::Relaxed) as u64]);
        let counts = table.counts;
        self.line(b"counts", &[counts.taken, counts.freed, counts.lost, counts.truncated, counts.nested]);
        let mut at = 0;
        while let Some(site) = table.words.get(at..at + HEAD) {
            let shape = site[SHAPE];
            let depth = (shape & 0xffff) as usize;
            // Place 0 of the table is not in the copy.
            let number = at as u64 + 1;
            let rounded = |word: u64| (f64::from_bits(word) + 0.5) as u64;
            let (objects_for, bytes_for) = (rounded(site[OBJECTS_FOR]), rounded(site[BYTES_FOR]));
            self.text(b"site");
            let head =
                [number, shape >> 16 & 0xffff_ffff, shape >> 48, site[COUNT], site[BYTES], objects_for, bytes_for];
            head.iter().for_each(|&number| self.number(number));
            self.name(site[NAME..].iter().flat_map(|word| word.to_le_bytes()));
            let frames = table.words.get(at + HEAD..at + HEAD + depth).unwrap_or(&[]);
            frames.iter().for_each(|&frame| self.number(frame));
            self.text(b"\n");
            at += HEAD + depth;
        }
        table.live.iter().for_each(|live| self.live(live, now));
        self.text(b"maps\n");
        self.flush();
        self.good &= os::copy_file(c"/proc/self/maps", self.file);
    }
}

/// Returns the line with the number of this process, which is among the first three.
#[place(cold)]
pub(crate) fn pid_line(room: &mut [u8; 16]) -> &[u8] {
    let mut out = Out { file: -1, bytes: [0; 4096], len: 0, good: true };
    out.line(b"pid", &[u64::from(os::process_id())]);
    let line = out.bytes.get(..out.len).unwrap_or(&[]);
    let room = &mut room[..line.len().min(16)];
    room.copy_from_slice(line);
    room
}

/// Writes the profile to a file descriptor. Returns false if no profile has run, or something
/// cannot be written.
#[place(cold)]
#[inline(never)]
pub(crate) fn dump(file: i32) -> bool {
    if !super::ever_on() {
        return false;
    }
    let written = samples::with_snapshot(|table| {
        let mut out = Out { file, bytes: [0; 4096], len: 0, good: true };
        out.all(table);
        out.good
    });
    written == Some(true)
}
