//! `ashlar run`: becomes the program, with `libashlar_malloc.so` preloaded.
//!
//! What cannot work is refused first: an unknown option, a program without a dynamic linker (it
//! ignores `LD_PRELOAD`), a set-user-ID program (its linker ignores it).

use std::env;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::args::RunArgs;
use crate::error::ToolError;
use crate::profile::leaks::{self, Wish};
use crate::{library, preload, program};

/// The rate of a profile for which none is given.
const USUAL_RATE: &str = "512K";

/// Becomes the program; returns only with the error that prevents it, or with `--leaks`.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, ToolError> {
    let mut command = prepared(args)?;
    if args.leaks {
        let wish = Wish { suppressions: args.suppressions.as_deref(), exit_code: args.leak_exit_code };
        return leaks::run(command, &wish);
    }
    let path = command.get_program().display().to_string();
    Err(ToolError::Usage(format!("{path}: {}", command.exec())))
}

/// Returns the program with its environment.
fn prepared(args: &RunArgs) -> Result<Command, ToolError> {
    let mut others = args.options.clone();
    if let Some(rate) = rate(args)? {
        others.push(format!("profile={rate}"));
    }
    let options = options(args.engine.as_deref(), &others)?;
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
    debug(args, &mut command)?;
    match args.stats {
        Some(form) => command.env("ASHLAR_STATS", form.name()),
        None => command.env_remove("ASHLAR_STATS"),
    };
    match &args.profile {
        Some(file) => {
            check_file(file)?;
            command.env("ASHLAR_PROFILE", file);
        }
        None if args.leaks => {}
        None => _ = command.env_remove("ASHLAR_PROFILE"),
    }
    Ok(command)
}

/// Returns the rate of the profile that is asked for.
fn rate(args: &RunArgs) -> Result<Option<String>, ToolError> {
    if args.leaks {
        return Ok(Some("1".to_owned()));
    }
    let Some(rate) = &args.profile_rate else {
        return Ok(args.profile.is_some().then(|| USUAL_RATE.to_owned()));
    };
    let bad = rate.contains(',') || rate.trim() == "0" || ashlar::check_options(&format!("profile={rate}")).is_err();
    if bad || rate.trim().is_empty() || rate.contains(char::is_alphabetic) && !rate.ends_with(['K', 'k', 'M', 'm']) {
        return Err(ToolError::option("--profile-rate", "expected 1 to 16M bytes, as 4096 or 512K"));
    }
    Ok(Some(rate.clone()))
}

/// Refuses a file that the program could not write at its end.
fn check_file(file: &Path) -> Result<(), ToolError> {
    let bad =
        |message: &dyn core::fmt::Display| ToolError::option("--profile", format!("{}: {message}", file.display()));
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match std::fs::metadata(folder) {
        Ok(folder) if folder.is_dir() && !file.is_dir() => Ok(()),
        Ok(_) => Err(bad(&"expected a file")),
        Err(error) => Err(bad(&error)),
    }
}

/// Passes on which caches are debugged, after a check.
fn debug(args: &RunArgs, command: &mut Command) -> Result<(), ToolError> {
    let given = |of_args: &Option<String>, option: &'static str, variable: &'static str| match of_args {
        Some(text) => Some((option, text.clone())),
        None => env::var(variable).ok().map(|text| (variable, text)),
    };
    if let Some((name, text)) = given(&args.debug, "--debug", "ASHLAR_DEBUG") {
        ashlar::check_debug(&text).map_err(|error| ToolError::option(name, error))?;
        command.env("ASHLAR_DEBUG", text);
    }
    if let Some((name, text)) = given(&args.failslab, "--failslab", "ASHLAR_FAILSLAB") {
        ashlar::check_failslab(&text).map_err(|expected| ToolError::option(name, expected))?;
        command.env("ASHLAR_FAILSLAB", text);
    }
    Ok(())
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
