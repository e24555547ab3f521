//! What the page is about: a process at one or several moments, and its heap profile.

use core::time::Duration;
use std::path::Path;
use std::time::Instant;

use crate::args::ReportArgs;
use crate::error::ToolError;
use crate::observe::memory::ReadError;
use crate::observe::pins::{Pins, pins};
use crate::observe::process::{Refusal, Target};
use crate::observe::report::Report;
use crate::observe::saved;
use crate::profile::read::{self, Profile};

/// Samples of a process that runs, and the least seconds between two.
const SAMPLES: f64 = 40.0;
const LEAST: f64 = 0.1;
/// How long a process is looked at.
const SECONDS: f64 = 5.0;

/// One process.
pub(super) struct Story {
    /// In the order of their times; one at least.
    pub(super) samples: Vec<Report>,
    pub(super) profile: Option<Profile>,
    /// Of a process that runs.
    pub(super) pins: Option<Pins>,
    /// What the reader must know.
    pub(super) notes: Vec<String>,
}

impl Story {
    /// Reads what the arguments name.
    pub(super) fn of(args: &ReportArgs) -> Result<Story, ToolError> {
        let number = |path: &Path| path.to_str()?.parse::<i32>().ok().filter(|&number| number > 0);
        let running = args.subjects.iter().find_map(|path| number(path).filter(|_| !path.exists()));
        let mut story = match (running, args.subjects.as_slice()) {
            (Some(pid), [_]) => Story::of_process(pid, args.seconds.unwrap_or(SECONDS), args.profile.is_none())?,
            (Some(_), _) => return Err(ToolError::option("PID|FILE", "expected one process, or files")),
            (None, _) if args.seconds.is_some() => {
                return Err(ToolError::option("--seconds", "expected the number of a process to look at"));
            }
            (None, paths) => Story::of_files(paths)?,
        };
        if let Some(path) = &args.profile {
            story.profile = Some(read::from_file(path)?);
        }
        Ok(story)
    }

    fn of_files(paths: &[std::path::PathBuf]) -> Result<Story, ToolError> {
        let mut samples = Vec::new();
        for path in paths {
            samples.extend(saved::series("FILE", path)?);
        }
        samples.sort_by(|a, b| a.time.total_cmp(&b.time));
        let mut notes = Vec::new();
        let first = &samples[0];
        if samples.iter().any(|other| (other.pid, other.started) != (first.pid, first.started)) {
            notes.push("The snapshots are of different processes.".to_owned());
        }
        Ok(Story { samples, profile: None, pins: None, notes })
    }

    /// Looks at a process for so many seconds.
    fn of_process(pid: i32, seconds: f64, with_profile: bool) -> Result<Story, ToolError> {
        let target = Target::open(pid).map_err(|(refusal, name)| refusal.error(pid, &name))?;
        let refused = |refusal: Refusal| refusal.error(pid, &target.name);
        let start = Instant::now();
        let interval = Duration::from_secs_f64((seconds / SAMPLES).max(LEAST));
        let end = start + Duration::from_secs_f64(seconds);
        let mut samples = vec![target.report().map_err(refused)?];
        let mut notes = Vec::new();
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            std::thread::sleep(interval.min(left));
            match target.report() {
                Ok(report) => samples.push(report),
                Err(Refusal::Gone | Refusal::Zombie | Refusal::Unreadable(ReadError::Ended)) => {
                    notes.push(format!("The process ended after {:.1} s.", start.elapsed().as_secs_f64()));
                    return Ok(Story { samples, profile: None, pins: None, notes });
                }
                Err(refusal) => return Err(refused(refusal)),
            }
        }
        let last = &samples[samples.len() - 1];
        // It may have ended since: then these parts are missing.
        let snapshot = target.snapshot().ok();
        let pins = snapshot.as_ref().and_then(|snapshot| pins(last, snapshot, false).ok());
        let profiles = snapshot.as_ref().filter(|_| with_profile).and_then(|snapshot| snapshot.profiles().ok());
        let profile = profiles.unwrap_or_default().into_iter().next().map(|(_, profile)| profile);
        Ok(Story { samples, profile, pins, notes })
    }

    /// The last moment.
    pub(super) fn now(&self) -> &Report {
        &self.samples[self.samples.len() - 1]
    }

    /// Seconds from the first sample to each.
    pub(super) fn times(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.time - self.samples[0].time).collect()
    }
}
