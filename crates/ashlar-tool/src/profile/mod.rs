//! `ashlar profile`: shows where the memory of a program was allocated.
//!
//! * [`read`]: what the library wrote. [`symbols`]: names for addresses.
//! * [`stacks`]: backtraces with names, and what was allocated there.
//! * [`text`]: tables and folded stacks. [`pprof`]: the file for pprof.
//! * [`leaks`]: `ashlar run --leaks`.

pub(crate) mod leaks;
mod pprof;
pub(crate) mod read;
pub(crate) mod stacks;
mod symbols;
pub(crate) mod text;

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use crate::args::ProfileArgs;
use crate::error::ToolError;
use stacks::Stacks;

/// Runs the command.
pub(crate) fn run(args: &ProfileArgs) -> Result<ExitCode, ToolError> {
    let number = args.file.to_str().and_then(|text| text.parse::<i32>().ok()).filter(|&number| number > 0);
    let profile = match number.filter(|_| !args.file.exists()) {
        Some(pid) => crate::observe::heap_profile(pid)?,
        None => read::from_file(&args.file)?,
    };
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
