//! Names of files that the environment gives, with the number of the process in them.

use crate::base::os;

/// The longest name of a file, with its final zero byte.
pub(super) const ROOM: usize = 1024;

/// Copies a name up to its zero byte, with the number of the process in place of each `%p`, and
/// `%` in place of `%%`. Returns false if it does not fit.
#[place(cold)]
pub(super) fn expand(name: &[u8], into: &mut [u8; ROOM]) -> bool {
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
