//! `ashlar run --leaks`: runs a program with every object sampled, and prints what was live at its
//! end.
//!
//! What lives at the end is not what is unreachable: a program that keeps a table to its end, and
//! leaves it to the system, is listed too. Lines `leak:PATTERN` of a file take out what is known,
//! as LeakSanitizer has it: a pattern is a part of the name of a function, a file or an object file
//! of the backtrace; `*` stands for any text, `^` and `$` for the ends.

use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use super::read;
use super::stacks::{Memory, Stack, Stacks};
use super::text;
use crate::error::ToolError;

/// The most sites that are printed.
const MOST_SITES: usize = 20;

/// A line of a file of suppressions, and what it took out.
struct Suppression {
    pattern: String,
    objects: u64,
    bytes: f64,
}

/// Reads a file of suppressions.
fn suppressions(path: &Path) -> Result<Vec<Suppression>, ToolError> {
    let bad = |message: String| ToolError::option("--suppressions", format!("{}: {message}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
    let mut all = Vec::new();
    for (number, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.strip_prefix("leak:") {
            Some(pattern) if !pattern.is_empty() => {
                all.push(Suppression { pattern: pattern.to_owned(), objects: 0, bytes: 0.0 });
            }
            _ => return Err(bad(format!("line {}: expected leak:PATTERN", number + 1))),
        }
    }
    Ok(all)
}

/// Returns whether a pattern fits a text.
fn fits(pattern: &str, text: &str) -> bool {
    let (from_start, pattern) = pattern.strip_prefix('^').map_or((false, pattern), |rest| (true, rest));
    let (to_end, pattern) = pattern.strip_suffix('$').map_or((false, pattern), |rest| (true, rest));
    let mut rest = text;
    let parts: Vec<&str> = pattern.split('*').collect();
    for (number, part) in parts.iter().enumerate() {
        let at_start = from_start && number == 0;
        let at_end = to_end && number + 1 == parts.len();
        let found = match (at_start, at_end) {
            (true, true) => return rest == *part,
            (true, false) => rest.starts_with(part).then_some(0),
            (false, true) => return rest.ends_with(part),
            (false, false) => rest.find(part),
        };
        let Some(at) = found else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// Returns whether a pattern fits anything in a backtrace.
fn fits_stack(pattern: &str, stacks: &Stacks<'_>, stack: &Stack) -> bool {
    let objects = stack.addresses.iter().filter_map(|&address| stacks.symbols.map(address));
    stack
        .functions()
        .any(|frame| fits(pattern, &frame.function) || (!frame.file.is_empty() && fits(pattern, &frame.file)))
        || objects.into_iter().any(|map| fits(pattern, &map.path))
}

/// What is asked of `--leaks`.
pub(crate) struct Wish<'a> {
    pub(crate) suppressions: Option<&'a Path>,
    pub(crate) exit_code: Option<u8>,
}

/// A directory for the file of the profile, which goes with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> io::Result<Scratch> {
        use std::os::unix::fs::DirBuilderExt;
        let base = std::env::temp_dir();
        for number in 0..1000 {
            let path = base.join(format!("ashlar-leaks-{}-{number}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Scratch(path)),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs the program and prints what it left. The exit code is the program's, or the one asked for
/// if it left something.
pub(crate) fn run(mut command: Command, wish: &Wish<'_>) -> Result<ExitCode, ToolError> {
    let mut known = wish.suppressions.map_or_else(|| Ok(Vec::new()), suppressions)?;
    let scratch = Scratch::new().map_err(|error| ToolError::Failed(format!("--leaks: {error}")))?;
    // Of all processes of the program, the first one's counts.
    command.env("ASHLAR_PROFILE", scratch.0.join("%p"));
    let name = command.get_program().display().to_string();
    let mut child = command.spawn().map_err(|error| ToolError::Usage(format!("{name}: {error}")))?;
    let path = scratch.0.join(child.id().to_string());
    let status = child.wait().map_err(|error| ToolError::Failed(format!("{name}: {error}")))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8;
    if !path.exists() {
        eprintln!("ashlar: --leaks: {name} ended without its exit handlers ({status}), so nothing is known of its end");
        return Ok(ExitCode::from(code));
    }
    let profile = read::from_file(&path)?;
    let mut stacks = Stacks::of(&profile);
    stacks.all.retain(|stack| stack.memory.live_samples > 0);
    let left = |stack: &Stack, known: &mut [Suppression]| {
        let fitting = known.iter_mut().find(|line| fits_stack(&line.pattern, &stacks, stack));
        match fitting {
            Some(line) => {
                line.objects += stack.memory.live_samples;
                line.bytes += stack.memory.live_bytes;
                false
            }
            None => true,
        }
    };
    let keep: Vec<bool> = stacks.all.iter().map(|stack| left(stack, &mut known)).collect();
    let mut keep = keep.into_iter();
    stacks.all.retain(|_| keep.next().unwrap_or(true));
    let mut total = Memory::default();
    stacks.all.iter().for_each(|stack| total.add(&stack.memory));
    let counts = profile.counts;
    // A terminal that is gone does not change the exit code.
    let _ = report(&mut io::stderr().lock(), &stacks.all, &known, &total, counts.lost);
    let found = total.live_samples > 0;
    Ok(ExitCode::from(wish.exit_code.filter(|_| found).unwrap_or(code)))
}

fn report(out: &mut impl Write, stacks: &[Stack], known: &[Suppression], total: &Memory, lost: u64) -> io::Result<()> {
    let objects = total.live_samples;
    writeln!(out, "ashlar: {} in {objects} objects lived at exit, reachable or not", text::bytes(total.live_bytes))?;
    text::sites(out, stacks, total, false, MOST_SITES)?;
    for line in known.iter().filter(|line| line.objects > 0) {
        writeln!(out, "suppressed: {} in {} objects by leak:{}", text::bytes(line.bytes), line.objects, line.pattern)?;
    }
    if lost > 0 {
        writeln!(out, "{lost} objects had no room in the table and are missing here")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn patterns_are_those_of_leak_sanitizer() {
        for (pattern, text, expected) in [
            ("site", "a_site_b", true),
            ("site", "a_sit", false),
            ("^site", "site_b", true),
            ("^site", "a_site", false),
            ("site$", "a_site", true),
            ("site$", "site_b", false),
            ("^site$", "site", true),
            ("^site$", "sites", false),
            ("a*c", "xabcx", true),
            ("a*c$", "abcb", false),
            ("a*b*c", "a-c-b", false),
            ("^a*c$", "a-c", true),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }
}
