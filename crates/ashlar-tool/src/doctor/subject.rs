//! Where the facts come from: a process that runs, a program, or this machine alone.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::elf::{self, Program};
use crate::error::ToolError;
use crate::observe::process::{Standing, standing};
use crate::program;

/// What is looked at.
pub(super) struct Subject {
    pub(super) kind: Kind,
    /// The directory of the process whose limits count: this one's, whose children inherit them, or
    /// that of the process.
    pub(super) proc: PathBuf,
}

pub(super) enum Kind {
    Machine,
    Program { path: PathBuf, script: Option<PathBuf>, file: Option<Program> },
    Process { pid: i32, standing: Box<Standing>, file: Option<Program> },
}

impl Subject {
    pub(super) fn of_machine() -> Subject {
        Subject { kind: Kind::Machine, proc: "/proc/self".into() }
    }

    pub(super) fn of_program(name: &OsStr) -> Result<Subject, ToolError> {
        let mut path = program::find(name)?;
        let mut script = None;
        // The interpreter of a script is the program that runs.
        if let Some(interpreter) = interpreter(&path) {
            script = Some(core::mem::replace(&mut path, interpreter));
        }
        let file = fs::read(&path).ok().and_then(|bytes| elf::read(&bytes));
        Ok(Subject { kind: Kind::Program { path, script, file }, proc: "/proc/self".into() })
    }

    pub(super) fn of_process(pid: i32) -> Result<Subject, ToolError> {
        let standing = Box::new(standing(pid)?);
        let proc = PathBuf::from(format!("/proc/{pid}"));
        let file = fs::read(proc.join("exe")).ok().and_then(|bytes| elf::read(&bytes));
        Ok(Subject { kind: Kind::Process { pid, standing, file }, proc })
    }

    /// What is looked at, in one line.
    pub(super) fn name(&self) -> String {
        match &self.kind {
            Kind::Machine => "this machine, and programs that are started here".to_owned(),
            Kind::Program { path, script: None, .. } => path.display().to_string(),
            Kind::Program { path, script: Some(script), .. } => {
                format!("{}, a script of {}", script.display(), path.display())
            }
            Kind::Process { pid, standing, .. } => format!("{} (PID {pid})", standing.name()),
        }
    }

    /// Reads a file of the process; empty if it may not be read.
    pub(super) fn read(&self, file: &str) -> String {
        fs::read(self.proc.join(file))
            .map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns a variable of the environment of the process.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let Kind::Process { .. } = self.kind else { return std::env::var(name).ok() };
        let environment = self.read("environ");
        let mut entries = environment.split('\0').filter_map(|entry| entry.split_once('='));
        entries.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    }

    /// The program's file.
    pub(super) fn file(&self) -> Option<&Program> {
        match &self.kind {
            Kind::Machine => None,
            Kind::Program { file, .. } | Kind::Process { file, .. } => file.as_ref(),
        }
    }

    /// The path of the program's file.
    pub(super) fn path(&self) -> Option<PathBuf> {
        match &self.kind {
            Kind::Machine => None,
            Kind::Program { path, .. } => Some(path.clone()),
            Kind::Process { .. } => Some(self.proc.join("exe")),
        }
    }
}

/// Returns the interpreter of a script.
fn interpreter(path: &Path) -> Option<PathBuf> {
    let bytes = fs::read(path).ok()?;
    let line = bytes.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|&byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let first = Path::new(OsStr::from_bytes(words.next()?)).to_owned();
    // `env` looks the program up.
    if first.file_name() == Some(OsStr::new("env"))
        && let Some(name) = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='))
    {
        return program::find(OsStr::from_bytes(name)).ok();
    }
    Some(first)
}
