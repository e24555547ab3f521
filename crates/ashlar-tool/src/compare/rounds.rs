//! The course of a comparison: reference, probes, warm-up, measured rounds.

use core::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::interrupt;
use super::mallocs::Malloc;
use super::probe::Probe;
use super::program::{Input, Program, Ran};
use super::record::{Record, Row, Run};
use super::spool::{Digest, Spool};
use crate::args::CompareArgs;
use crate::error::ToolError;
use crate::host;
use crate::resources::End;

/// How long a comparison takes, if nothing else is said.
const BUDGET: Duration = Duration::from_secs(20);
/// The fewest and the most rounds that are chosen. With fewer than six no interval of 95 % is
/// possible.
const FEWEST: usize = 6;
const MOST: usize = 30;

/// What a run must give to be the same work as the reference.
struct Reference {
    /// The malloc, in words.
    on: String,
    end: End,
    digest: Digest,
    stdout: Spool,
}

/// A comparison under way.
struct Course<'a> {
    program: &'a Program,
    check: bool,
    reference: Reference,
    record: Record,
    bar: ProgressBar,
}

/// Compares the program on the mallocs of `rows`, the base first.
pub(super) fn compare(
    args: &CompareArgs,
    program: &Program,
    rows: Vec<Malloc>,
    notes: Vec<String>,
) -> Result<Record, ToolError> {
    let host = host::describe();
    let bar = progress_bar();
    let warmup = args.warmup as usize;
    let mut rows: Vec<Row> = rows.into_iter().map(Row::new).collect();
    let base = rows[0].malloc.clone();
    bar.set_message(base.id.clone());
    let first = program.run(&base, None)?;
    let mut took = first.usage.elapsed;
    let mut spent = took;
    let (first, failed) = Reference::of(first, base.in_words())?;
    for row in &mut rows {
        row.runs.clear();
    }
    let record = Record {
        program: program.words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        host,
        rounds: 0,
        planned_rounds: 0,
        warmup,
        checked: !args.no_check,
        interrupted: None,
        mallocs: rows,
        notes,
    };
    let mut course = Course { program, check: !args.no_check, reference: first, record, bar };
    course.note_reference(failed);
    if course.check && interrupt::signal().is_none() {
        let again = program.run(&base, None)?;
        took = again.usage.elapsed;
        spent += took;
        course.must_equal_itself(&again)?;
    }
    course.probe_all()?;
    let mallocs = course.record.mallocs.len();
    spent += took * u32::try_from(mallocs * (1 + warmup)).unwrap_or(u32::MAX);
    let rounds = args.rounds.map_or_else(|| chosen_rounds(took, spent, mallocs), |rounds| rounds as usize);
    course.record.planned_rounds = rounds;
    course.bar.set_length(((warmup + rounds) * mallocs) as u64);
    for round in 0..warmup + rounds {
        if interrupt::signal().is_some() || course.record.is_hopeless() {
            break;
        }
        course.round(round, round >= warmup)?;
    }
    course.bar.finish_and_clear();
    course.record.interrupted = interrupt::signal();
    course.record.finish();
    Ok(course.record)
}

impl Course<'_> {
    /// Says what is special about the program.
    fn note_reference(&mut self, stderr: Vec<String>) {
        let mut note = |text: String| self.record.notes.push(text);
        if self.reference.end != End::Code(0) {
            let said = if stderr.is_empty() { String::new() } else { format!(": {}", stderr.join("; ")) };
            note(format!("the program {} on {}, too{said}", self.reference.end, self.reference.on));
        }
        if self.program.input == Input::InPlaceOfPipe {
            note("standard input is a pipe, which cannot be read twice: the program reads /dev/null".to_owned());
        }
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            note(format!("LD_PRELOAD holds {} in every run, that on the base too", others.display()));
        }
    }

    /// Two runs on the base must be the same, or others cannot be held against them.
    fn must_equal_itself(&self, again: &Ran) -> Result<(), ToolError> {
        if interrupt::signal().is_some() {
            return Ok(());
        }
        self.reference.difference(again)?.map_or(Ok(()), |difference| {
            Err(ToolError::option(
                "PROGRAM",
                format_args!(
                    "differs from run to run on {} already: {difference}; --no-check measures it without comparing \
                     outputs",
                    self.reference.on
                ),
            ))
        })
    }

    /// Runs the program once on each malloc that is preloaded, and leaves out those that it does
    /// not call.
    fn probe_all(&mut self) -> Result<(), ToolError> {
        for at in 1..self.record.mallocs.len() {
            if interrupt::signal().is_some() {
                return Ok(());
            }
            let malloc = self.record.mallocs[at].malloc.clone();
            let Some(library) = &malloc.preload else { continue };
            self.bar.set_message(format!("probe of {}", malloc.id));
            let failed = |error: std::io::Error| ToolError::Failed(format!("cannot look at the program: {error}"));
            let mut probe = Probe::new(library).map_err(failed)?;
            let ran = self.program.run(&malloc, Some(&mut probe))?;
            let found = probe.found().map_err(failed)?;
            if interrupt::signal().is_some() {
                return Ok(());
            }
            let mut without: Vec<&str> = found.without.iter().map(String::as_str).collect();
            if !without.is_empty() && found.refused.is_none() {
                without.truncate(3);
                self.record.notes.push(format!("{}: these ran without it: {}", malloc.id, without.join(", ")));
            }
            let row = &mut self.record.mallocs[at];
            row.left_out = found.refused.as_ref().map(|why| {
                let linker = ran.stderr.last_lines(20).into_iter().find(|line| line.contains("LD_PRELOAD"));
                let linker = linker.map_or_else(String::new, |line| format!(" ({line})"));
                format!("the program does not call its malloc: {why}{linker}")
            });
            row.probe = Some(found);
        }
        Ok(())
    }

    /// Runs the program once on every malloc. A round that a signal ends is left incomplete.
    fn round(&mut self, round: usize, counts: bool) -> Result<(), ToolError> {
        for (turn, at) in order(self.record.mallocs.len(), round).into_iter().enumerate() {
            let row = &self.record.mallocs[at];
            if row.left_out.is_some() {
                continue;
            }
            self.bar.set_message(row.id().to_owned());
            let ran = self.program.run(&row.malloc, None)?;
            if interrupt::signal().is_some() {
                return Ok(());
            }
            self.take(at, turn, ran, counts)?;
            self.bar.inc(1);
        }
        Ok(())
    }

    /// Takes the figures of a run, or leaves its malloc out if it did other work.
    fn take(&mut self, at: usize, turn: usize, ran: Ran, counts: bool) -> Result<(), ToolError> {
        if self.check {
            if at == 0 {
                self.must_equal_itself(&ran)?;
            } else if let Some(difference) = self.reference.difference(&ran)? {
                let mut said = ran.stderr.last_lines(2).join("; ");
                if ran.end == self.reference.end {
                    said.clear();
                }
                let said = if said.is_empty() { said } else { format!("; it said: {said}") };
                self.record.mallocs[at].left_out = Some(format!("it does not do the same: {difference}{said}"));
                return Ok(());
            }
        }
        let id = self.record.mallocs[at].id();
        let mut notes = Vec::new();
        if ran.end != self.reference.end {
            notes.push(format!("{id}: the program {}, unlike its first run on {}", ran.end, self.reference.on));
        }
        if ran.left_processes {
            notes.push("the program leaves processes behind when it ends, which are not measured".to_owned());
        }
        for note in notes {
            if !self.record.notes.contains(&note) {
                self.record.notes.push(note);
            }
        }
        if counts {
            let stdout = ran.stdout.digest().map_err(unreadable)?;
            self.record.mallocs[at].runs.push(Run { turn, end: ran.end, usage: ran.usage, stdout });
        }
        Ok(())
    }
}

impl Reference {
    /// Takes a run as the reference; also returns the last lines of its standard error.
    fn of(ran: Ran, on: &str) -> Result<(Self, Vec<String>), ToolError> {
        let digest = ran.stdout.digest().map_err(unreadable)?;
        Ok((Self { on: on.to_owned(), end: ran.end, digest, stdout: ran.stdout }, ran.stderr.last_lines(2)))
    }

    /// Says how another run differs.
    fn difference(&self, ran: &Ran) -> Result<Option<String>, ToolError> {
        if ran.end != self.end {
            return Ok(Some(format!("it {}, at first it {} on {}", ran.end, self.end, self.on)));
        }
        if ran.stdout.digest().map_err(unreadable)? == self.digest {
            return Ok(None);
        }
        let difference = ran.stdout.difference(&self.stdout).map_err(unreadable)?;
        Ok(difference.map(|at| {
            format!("line {} of its output is \"{}\", at first \"{}\" on {}", at.line, at.left, at.right, self.on)
        }))
    }
}

fn unreadable(error: std::io::Error) -> ToolError {
    ToolError::Failed(format!("cannot read the output: {error}"))
}

fn progress_bar() -> ProgressBar {
    // Hidden where standard error is no terminal.
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} runs, {eta} left, now {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// Returns how many rounds of `mallocs` runs, of `took` each, fill the time that is left when
/// `spent` is over. Their number is even, so that each order of two mallocs comes equally often.
fn chosen_rounds(took: Duration, spent: Duration, mallocs: usize) -> usize {
    let round = took.as_secs_f64().max(1e-6) * mallocs as f64;
    let rounds = BUDGET.saturating_sub(spent).as_secs_f64() / round;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds")]
    let rounds = rounds.clamp(FEWEST as f64, MOST as f64) as usize;
    rounds - rounds % 2
}

/// Returns the order of the mallocs in a round: drawn anew for every second one, and turned round
/// in between, so that no malloc comes first, or behind a certain other one, more often than the
/// rest.
fn order(mallocs: usize, round: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..mallocs).collect();
    // splitmix64, from the number of the pair of rounds.
    let mut state = (round / 2) as u64;
    for last in (1..mallocs).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut drawn = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let drawn = usize::try_from((drawn ^ (drawn >> 31)) % (last as u64 + 1)).unwrap_or(0);
        order.swap(last, drawn);
    }
    if !round.is_multiple_of(2) {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_fill_twenty_seconds() {
        let rounds = |ms: u64, mallocs: usize| {
            let took = Duration::from_millis(ms);
            chosen_rounds(took, took * 5, mallocs)
        };
        assert_eq!((rounds(1, 2), rounds(100, 2), rounds(500, 2)), (30, 30, 16));
        assert_eq!((rounds(60_000, 2), rounds(500, 7), rounds(400, 4)), (6, 6, 10));
        assert_eq!(chosen_rounds(Duration::ZERO, Duration::ZERO, 2), 30);
    }

    #[test]
    fn every_malloc_has_its_turn_in_every_place_equally_often() {
        for mallocs in 1..=7 {
            let mut before = vec![vec![0; mallocs]; mallocs];
            for round in 0..40 {
                let order = order(mallocs, round);
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert!(sorted.iter().copied().eq(0..mallocs), "{order:?}");
                for (at, first) in order.iter().enumerate() {
                    for second in &order[at + 1..] {
                        before[*first][*second] += 1;
                    }
                }
            }
            let pairs = (0..mallocs).flat_map(|a| (0..a).map(move |b| (a, b)));
            for (a, b) in pairs {
                assert_eq!((before[a][b], before[b][a]), (20, 20), "{a} and {b} of {mallocs}");
            }
        }
        assert_ne!(order(5, 0), order(5, 2), "drawn anew");
    }
}
