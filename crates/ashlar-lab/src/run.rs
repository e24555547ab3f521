//! `ashlar run`: becomes the program, with `libashlar_malloc.so` preloaded.
//!
//! What cannot work is said before: an option that is none, a program without a dynamic linker (it ignores
//! `LD_PRELOAD`), a set-user-ID program (its linker ignores it).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::kit::error::CliError;
use crate::registry::args::RunArgs;

/// Its names: that of a build or of an installation for developers, and that of one for users.
const LIBRARY: [&str; 2] = ["libashlar_malloc.so", "libashlar_malloc.so.0"];

/// Runs the program; comes back only with an error.
pub(crate) fn run(args: &RunArgs) -> Result<(), CliError> {
    let options = options(args)?;
    let library = library()?;
    let [name, arguments @ ..] = args.program.as_slice() else {
        return Err(CliError::option("PROGRAM", "expected a program"));
    };
    let path = find_program(name)?;
    check_program(&path)?;

    let mut command = Command::new(&path);
    command.arg0(name).args(arguments).env("LD_PRELOAD", preload_list(&library));
    if !options.is_empty() {
        command.env("ASHLAR_OPTIONS", &options);
    }
    match args.stats {
        Some(form) => command.env("ASHLAR_STATS", form.name()),
        None => command.env_remove("ASHLAR_STATS"),
    };
    Err(CliError::Usage(format!("{}: {}", path.display(), command.exec())))
}

/// The options in force: those of the environment, then those of the command line, which win.
fn options(args: &RunArgs) -> Result<String, CliError> {
    let bad = |option: &str, error: ashlar::OptionError<'_>| CliError::option(option, error);
    let mut all = env::var("ASHLAR_OPTIONS").unwrap_or_default();
    ashlar::check_options(&all).map_err(|error| bad("ASHLAR_OPTIONS", error))?;
    let engine = args.engine.iter().map(|id| ("--engine", format!("engine={id}")));
    let others = args.options.iter().map(|text| ("--option", text.clone()));
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

/// The shared library: beside the tool, or in the library directories beside the tool's own.
pub(crate) fn library() -> Result<PathBuf, CliError> {
    let tool = env::current_exe().map_err(|error| CliError::Failed(format!("cannot find myself: {error}")))?;
    let dir = tool.parent().unwrap_or(Path::new("/"));
    build_under_cargo(dir)?;
    let prefix = dir.parent().unwrap_or(dir);
    let multiarch = format!("lib/{}-linux-gnu", env::consts::ARCH);
    let places = [dir.to_owned(), prefix.join("lib"), prefix.join(multiarch), prefix.join("lib64")];
    let mut files = places.iter().flat_map(|place| LIBRARY.map(|name| place.join(name)));
    files.find(|path| path.is_file()).ok_or_else(|| {
        let places = places.map(|place| place.display().to_string()).join(", ");
        CliError::Failed(format!("no {} in {places}: `cargo build --release` makes it", LIBRARY[0]))
    })
}

/// `cargo run` and `cargo test` of this package build the tool alone. (Were the library a dependency, Cargo would build
/// it twice under one name, as tests unwind and programs do not.) So started by them, have it built as the tool was.
fn build_under_cargo(dir: &Path) -> Result<(), CliError> {
    let (Some(cargo), Some(manifest)) = (env::var_os("CARGO"), env::var_os("CARGO_MANIFEST_DIR")) else {
        return Ok(());
    };
    let (Some(profile), Some(target)) = (dir.file_name(), dir.parent()) else { return Ok(()) };
    if manifest != env!("CARGO_MANIFEST_DIR") || (profile != "release" && profile != "debug") {
        return Ok(());
    }
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "-p", "ashlar-malloc"]).current_dir(&manifest).arg("--target-dir").arg(target);
    if profile == "release" {
        build.arg("--release");
    }
    match build.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(CliError::Failed(format!("`cargo build -p ashlar-malloc`: {status}"))),
        Err(error) => Err(CliError::Failed(format!("`cargo build -p ashlar-malloc`: {error}"))),
    }
}

/// Our library first, then what was to be preloaded anyway.
fn preload_list(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

/// Looks a program up as a shell does.
pub(crate) fn find_program(name: &OsStr) -> Result<PathBuf, CliError> {
    let not_found = || CliError::NotFound(format!("PROGRAM: {}: not found", name.to_string_lossy()));
    if name.as_bytes().contains(&b'/') {
        return if Path::new(name).exists() { Ok(name.into()) } else { Err(not_found()) };
    }
    let runs = |path: &PathBuf| fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|dir| dir.join(name)).find(runs).ok_or_else(not_found)
}

/// Refuses programs that would run without the library.
fn check_program(path: &Path) -> Result<(), CliError> {
    let refuse = |why: &str| Err(CliError::option("PROGRAM", format_args!("{}: {why}", path.display())));
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) => return refuse(&error.to_string()),
    };
    // SAFETY: geteuid has no preconditions and cannot fail.
    let me = unsafe { libc::geteuid() };
    // A set-user-ID program of the user's own changes nothing, and its linker obeys.
    if meta.mode() & libc::S_ISUID != 0 && meta.uid() != me || meta.mode() & libc::S_ISGID != 0 && me != 0 {
        return refuse("set-user-ID or set-group-ID: its dynamic linker ignores LD_PRELOAD");
    }
    match fs::read(path) {
        Ok(bytes) if is_static(&bytes) => {
            refuse("a static program: it has no dynamic linker to preload a library; link it with libashlar_malloc.a")
        }
        // What may be executed but not read is the system's business, and so are scripts.
        _ => Ok(()),
    }
}

/// True for a 64-bit ELF program without a `PT_INTERP` segment.
fn is_static(elf: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let word = |at: usize, bytes: usize| -> Option<usize> {
        let field = elf.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte)))
    };
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return false;
    }
    let headers = || -> Option<bool> {
        let (start, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
        let mut found = false;
        for number in 0..count {
            found |= word(start.checked_add(number * size)?, 4)? == PT_INTERP as usize;
        }
        Some(found)
    };
    headers() == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_elf_files_without_an_interpreter_are_static() {
        let mut elf = vec![0u8; 120];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = 1;
        assert!(is_static(&elf), "one segment, which is no interpreter");
        elf[64] = 3;
        assert!(!is_static(&elf));
        assert!(!is_static(&elf[..64]), "cut off");
        assert!(!is_static(b"#!/bin/sh\n"));
        let me = fs::read(env::current_exe().unwrap()).unwrap();
        assert!(!is_static(&me));
    }
}
