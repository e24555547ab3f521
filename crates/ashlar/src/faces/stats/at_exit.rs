//! The figures at exit: `ASHLAR_STATS`.

use super::print::print_stats;
use crate::base::os;
use crate::base::report;
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering, SpinLock};

/// The descriptor for the figures: a copy of standard error made at load, because many programs
/// close theirs before they end.
static TO: AtomicU32 = AtomicU32::new(NOWHERE);
const NOWHERE: u32 = u32::MAX;
/// The figures go to the file that [`FILE`] names.
const TO_FILE: u32 = u32::MAX - 1;
/// 1: as JSON.
static AS_JSON: AtomicUsize = AtomicUsize::new(0);
/// The longest name of a file, with its final zero byte.
const ROOM: usize = 1024;
/// The name of the file, as the variable has it, with a final zero byte.
#[place(large_bss)]
static FILE: SpinLock<[u8; ROOM]> = SpinLock::new([0; ROOM]);

const EXPECTED: &str = "expected text, json, text:FILE or json:FILE, with FILE of at most 1000 bytes";

/// Reads the variable.
#[inline(never)]
#[place(cold)]
pub(crate) fn at_load() {
    let Some(wish) = os::secure_env(c"ASHLAR_STATS") else { return };
    let colon = wish.iter().position(|&byte| byte == b':');
    let (form, file) = colon.map_or((wish, None), |at| (&wish[..at], Some(&wish[at + 1..])));
    let as_json = match form {
        b"text" => 0,
        b"json" => 1,
        _ => return report::warn(format_args!("ASHLAR_STATS: {EXPECTED}")),
    };
    AS_JSON.store(as_json, Ordering::Relaxed);
    match file {
        None => TO.store(os::copy_of_stderr().map_or(NOWHERE, |copy| copy as u32), Ordering::Relaxed),
        Some(file) if (1..=1000).contains(&file.len()) => {
            FILE.lock()[..file.len()].copy_from_slice(file);
            TO.store(TO_FILE, Ordering::Relaxed);
        }
        Some(_) => report::warn(format_args!("ASHLAR_STATS: {EXPECTED}")),
    }
}

/// 1: print also if nothing was allocated.
static IN_ANY_CASE: AtomicUsize = AtomicUsize::new(0);

/// Has the figures printed also if nothing was allocated, for a library that is loaded for its
/// allocator alone.
#[doc(hidden)]
#[place(cold)]
pub fn print_stats_in_any_case() {
    IN_ANY_CASE.store(1, Ordering::Relaxed);
}

/// Returns whether anything was ever allocated here. A program may only contain this crate, or
/// only have asked it for its mode.
#[place(cold)]
fn was_used() -> bool {
    crate::boot::is_up() && (crate::zone_stats().committed > 0 || crate::direct_bytes() > 0)
}

/// Prints the figures, once, if the allocator was used or they are wanted in any case.
#[inline(never)]
#[place(cold)]
pub(crate) fn at_exit() {
    let to = TO.swap(NOWHERE, Ordering::Relaxed);
    if to == NOWHERE || IN_ANY_CASE.load(Ordering::Relaxed) == 0 && !was_used() {
        return;
    }
    let as_json = AS_JSON.load(Ordering::Relaxed) != 0;
    if to != TO_FILE {
        let _ = print_stats(to as i32, as_json);
        return;
    }
    let mut name = [0; ROOM];
    if !expand(&FILE.lock()[..], &mut name) {
        return report::warn(format_args!("ASHLAR_STATS: {EXPECTED}"));
    }
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(0);
    let shown = core::str::from_utf8(&name[..end]).unwrap_or("FILE");
    let file = match os::append_to(&name) {
        Ok(file) => file,
        Err(error) => return report::warn(format_args!("ASHLAR_STATS: {shown}: cannot be opened (error {error})")),
    };
    if let Err(error) = print_stats(file, as_json) {
        report::warn(format_args!("ASHLAR_STATS: {shown}: cannot be written (error {error})"));
    }
    os::close(file);
}

/// Copies a name up to its zero byte, with the number of the process in place of each `%p`, and
/// `%` in place of `%%`. Returns false if it does not fit.
#[place(cold)]
fn expand(name: &[u8], into: &mut [u8; ROOM]) -> bool {
    let mut to = 0;
    let mut put = |byte: u8| {
        // The last byte stays zero.
        let fits = to + 1 < ROOM;
        if fits {
            into[to] = byte;
            to += 1;
        }
        fits
    };
    let mut bytes = name.iter().copied().take_while(|&byte| byte != 0).peekable();
    while let Some(byte) = bytes.next() {
        let fits = match (byte, bytes.peek()) {
            (b'%', Some(b'p')) => {
                bytes.next();
                let (mut number, mut digits, mut count) = (os::process_id(), [0; 10], 0);
                while number > 0 || count == 0 {
                    digits[count] = b'0' + (number % 10) as u8;
                    number /= 10;
                    count += 1;
                }
                digits[..count].iter().rev().all(|&digit| put(digit))
            }
            (b'%', Some(b'%')) => {
                bytes.next();
                put(b'%')
            }
            _ => put(byte),
        };
        if !fits {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    #[test]
    fn the_name_of_the_file_has_the_number_of_the_process() {
        let expanded = |name: &str| {
            let mut into = [0; ROOM];
            let fits = expand(name.as_bytes(), &mut into);
            let end = into.iter().position(|&byte| byte == 0).expect("an end");
            fits.then(|| String::from_utf8_lossy(&into[..end]).into_owned())
        };
        let pid = std::process::id();
        for (name, wanted) in [
            ("", String::new()),
            ("/tmp/x", "/tmp/x".to_owned()),
            ("a%pb%p", format!("a{pid}b{pid}")),
            ("100%%p%", "100%p%".to_owned()),
            ("%q", "%q".to_owned()),
            ("a\0b", "a".to_owned()),
        ] {
            assert_eq!(expanded(name), Some(wanted), "{name}");
        }
        assert_eq!(expanded(&"x".repeat(ROOM - 1)).map(|name| name.len()), Some(ROOM - 1));
        assert_eq!(expanded(&"x".repeat(ROOM)), None);
        assert_eq!(expanded(&"%p".repeat(ROOM)), None);
    }
}
