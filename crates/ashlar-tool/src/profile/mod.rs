//! `ashlar profile`: shows where the memory of a program was allocated.
//!
//! * [`read`]: what the library wrote. [`symbols`]: names for addresses, from the
//!   files of [`code`].
//! * [`stacks`]: backtraces with names, and what was allocated there.
//! * [`text`]: tables and folded stacks. [`pprof`]: the file for pprof.
//! * [`leaks`]: `ashlar run --leaks`.

mod code;
pub(crate) mod leaks;
mod pprof;
pub(crate) mod read;
pub(crate) mod stacks;
mod symbols;
pub(crate) mod text;

use core::time::Duration;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

use crate::args::ProfileArgs;
use crate::error::ToolError;
use crate::observe::{hands, heap_profile};
use read::Profile;
use stacks::Stacks;

/// Runs the command.
pub(crate) fn run(args: &ProfileArgs) -> Result<ExitCode, ToolError> {
    let Some(profile) = profile(args)? else { return Ok(ExitCode::SUCCESS) };
    let stacks = Stacks::of(&profile);
    if let Some(path) = &args.pprof {
        let written = pprof::encoded(&profile, &stacks).and_then(|bytes| std::fs::write(path, bytes));
        written.map_err(|error| ToolError::option(&path.display().to_string(), error))?;
        if !args.folded && !args.top {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let written = if args.folded {
        text::folded(&mut out, &stacks, args.allocated)
    } else {
        text::top(&mut out, &profile, &stacks, args.by, args.allocated, args.limit)
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(ToolError::Failed(format!("standard output: {error}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Returns the profile that the arguments name; `None` if it is only started or stopped.
fn profile(args: &ProfileArgs) -> Result<Option<Profile>, ToolError> {
    let number = args.file.to_str().and_then(|text| text.parse::<i32>().ok()).filter(|&number| number > 0);
    let rate = rate(&args.rate)?;
    let Some(pid) = number.filter(|_| !args.file.exists()) else {
        if args.seconds.is_some() || args.start || args.stop {
            return Err(ToolError::option("PID", "expected the number of a process"));
        }
        return read::from_file(&args.file).map(Some);
    };
    if args.stop {
        if heap_profile(pid)?.rate == 0 {
            return Err(ToolError::option("PID", format_args!("{pid}: its heap profile was stopped before")));
        }
        hands::stop_profile(pid, &args.wait)?;
        return Ok(None);
    }
    if args.start {
        hands::start_profile(pid, rate, &args.wait)?;
        return Ok(None);
    }
    if let Some(seconds) = args.seconds {
        hands::start_profile(pid, rate, &args.wait)?;
        std::thread::sleep(Duration::from_secs_f64(seconds));
        let profile = heap_profile(pid);
        if let Err(error) = hands::stop_profile(pid, &args.wait) {
            eprintln!("ashlar: the profile goes on: {error}");
        }
        return profile.map(Some);
    }
    heap_profile(pid).map(Some)
}

/// Reads a rate, which the process reads again.
fn rate(text: &str) -> Result<u64, ToolError> {
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let rate = digits.parse::<u64>().ok().and_then(|rate| rate.checked_mul(unit));
    let rate = rate.filter(|rate| (1..=16 << 20).contains(rate));
    rate.ok_or_else(|| ToolError::option("--rate", "expected 1 to 16M bytes, as 4096 or 512K"))
}
