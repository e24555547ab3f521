//! How wide the lines of a table may be, and breaking lines that are wider.

use std::io::IsTerminal;

/// Columns where standard output is no terminal: what most terminals have today, and a file's
/// reader too.
const NO_TERMINAL: usize = 120;
/// No table is narrower. A terminal that is breaks its lines itself.
const LEAST: usize = 80;

/// Returns the columns that a line may take.
pub(crate) fn width() -> usize {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return NO_TERMINAL;
    }
    terminal_size::terminal_size_of(out).map_or(LEAST, |(columns, _)| usize::from(columns.0).max(LEAST))
}

/// Breaks each line of `text` that is wider than `width` at spaces. What follows is indented by two
/// more than the line was.
pub(crate) fn wrapped(text: &str, width: usize) -> String {
    let mut all = String::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let (mut rest, mut before) = (line, 0);
        while before + rest.chars().count() > width {
            let end = rest.char_indices().nth(width - before).map_or(rest.len(), |(at, _)| at);
            // A line begins with a word at least.
            let first = rest.len() - rest.trim_start().len();
            let next = rest[end..].chars().next().map_or(0, char::len_utf8);
            let Some(at) = rest[first..end + next].rfind(' ').map(|at| first + at) else { break };
            all += &" ".repeat(before);
            all += rest[..at].trim_end();
            all.push('\n');
            rest = rest[at..].trim_start();
            before = indent + 2;
        }
        all += &" ".repeat(before);
        all += rest;
        all.push('\n');
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_lines_are_broken_at_spaces_and_others_stay() {
        assert_eq!(wrapped("short\n  1  2\n", 20), "short\n  1  2\n");
        assert_eq!(wrapped(" - one two three four", 13), " - one two\n   three four\n");
        assert_eq!(wrapped("  averylongwordalone", 8), "  averylongwordalone\n");
        assert_eq!(wrapped("één twee drie", 8), "één twee\n  drie\n");
        for width in 10..40 {
            let text = wrapped("   one two three four five six seven eight nine ten", width);
            assert!(text.lines().all(|line| line.len() <= width), "{width}:\n{text}");
            let words: Vec<_> = text.split_whitespace().collect();
            assert_eq!(words.join(" "), "one two three four five six seven eight nine ten");
        }
    }

    #[test]
    fn a_file_has_the_width_of_many_terminals() {
        assert!(width() >= LEAST);
    }
}
