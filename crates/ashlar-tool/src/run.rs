//! `ashlar run`: becomes the program, with `libashlar_malloc.so` preloaded.
//!
//! What cannot work is refused first: an unknown option, a program without a dynamic linker (it
//! ignores `LD_PRELOAD`), a set-user-ID program (its linker ignores it).

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::args::RunArgs;
use crate::error::ToolError;
use crate::{library, preload, program};

/// Becomes the program; returns the error that prevents it.
pub(crate) fn become_program(args: &RunArgs) -> ToolError {
    match prepared(args) {
        Ok(mut command) => {
            let path = command.get_program().display().to_string();
            ToolError::Usage(format!("{path}: {}", command.exec()))
        }
        Err(error) => error,
    }
}

/// Returns the program with its environment.
fn prepared(args: &RunArgs) -> Result<Command, ToolError> {
    let options = options(args.engine.as_deref(), &args.options)?;
    let library = library::find()?;
    let [name, arguments @ ..] = args.program.as_slice() else {
        return Err(ToolError::option("PROGRAM", "expected a program"));
    };
    let path = program::find(name)?;
    program::check_preload(&path)?;

    let mut command = Command::new(&path);
    command.arg0(name).args(arguments).env("LD_PRELOAD", preload::list(&library)?);
    if !options.is_empty() {
        command.env("ASHLAR_OPTIONS", &options);
    }
    match args.stats {
        Some(form) => command.env("ASHLAR_STATS", form.name()),
        None => command.env_remove("ASHLAR_STATS"),
    };
    Ok(command)
}

/// Returns the options in force: those of the environment, then those of the command line, which
/// win.
pub(crate) fn options(engine: Option<&str>, others: &[String]) -> Result<String, ToolError> {
    let bad = |option: &str, error: ashlar::OptionError<'_>| ToolError::option(option, error);
    let mut all = env::var("ASHLAR_OPTIONS").unwrap_or_default();
    ashlar::check_options(&all).map_err(|error| bad("ASHLAR_OPTIONS", error))?;
    let engine = engine.iter().map(|id| ("--engine", format!("engine={id}")));
    let others = others.iter().map(|text| ("--option", text.clone()));
    for (option, text) in engine.chain(others) {
        ashlar::check_options(&text).map_err(|error| bad(option, error))?;
        if !all.is_empty() {
            all.push(',');
        }
        all.push_str(&text);
    }
    // Each may be good and all together not.
    ashlar::check_options(&all).map_err(|error| bad("--option", error))?;
    Ok(all)
}
