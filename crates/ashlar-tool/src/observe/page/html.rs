//! Small parts of the page: text that comes from a process, sizes, shares and dates.

use core::fmt::{self, Display, Formatter, Write};

/// Appends to the page. A string grows, so this cannot fail.
macro_rules! put {
    ($page:expr, $($arg:tt)*) => {{
        let _ = core::fmt::Write::write_fmt($page, format_args!($($arg)*));
    }};
}
pub(super) use put;

/// The most characters of a name.
const MOST: usize = 240;

/// Text that cannot be markup. Names come from processes and files, which are not trusted.
pub(super) struct Text<'a>(pub(super) &'a str);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in self.0.chars().take(MOST) {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c if c.is_control() => f.write_char('?')?,
                c => f.write_char(c)?,
            }
        }
        if self.0.chars().nth(MOST).is_some() { f.write_str("…") } else { Ok(()) }
    }
}

/// Returns a size with its unit.
pub(super) fn size(bytes: u64) -> String {
    crate::profile::text::bytes(bytes as f64)
}

/// Returns a change with its sign.
pub(super) fn change(bytes: i64) -> String {
    match bytes {
        0 => "0 B".to_owned(),
        bytes => format!("{}{}", if bytes < 0 { '−' } else { '+' }, size(bytes.unsigned_abs())),
    }
}

/// Returns how many hundredths of `whole` the part is, at most all.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 * 100.0 / whole as f64).min(100.0) }
}

/// Returns a number in groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns the date and the time of a moment in seconds since 1970.
pub(super) fn date(time: f64) -> String {
    // Later than any clock that is right; also what is no number.
    let seconds = time.clamp(0.0, 253_402_300_799.0) as u64;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that a leap day is the last of one.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, year) = if month < 10 { (month + 3, era * 400 + year) } else { (month - 9, era * 400 + year + 1) };
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_process_are_no_markup() {
        assert_eq!(Text("<b x='\"&\x1b>").to_string(), "&lt;b x=&#39;&quot;&amp;?&gt;");
        assert_eq!(Text(&"é".repeat(500)).to_string().chars().count(), MOST + 1);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let told = [0.0, 951_782_400.0, 1_709_164_799.0, 1_795_689_157.9, f64::NAN, -1.0, 1e300].map(date);
        let days = told.each_ref().map(|told| &told[..10]);
        assert_eq!(
            days,
            ["1970-01-01", "2000-02-29", "2024-02-28", "2026-11-26", "1970-01-01", "1970-01-01", "9999-12-31"]
        );
        assert!(told[3].ends_with(" 10:32:37 UTC"), "{}", told[3]);
    }

    #[test]
    fn figures_are_short() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, -1024, 1024].map(change), ["0 B", "−1.0 KiB", "+1.0 KiB"]);
        assert_eq!((percent(1, 0), percent(1, 4), percent(9, 4)), (0.0, 25.0, 100.0));
    }
}
