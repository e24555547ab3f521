//! Processes that run while the tool looks at them.
#![allow(dead_code, reason = "each test file uses a part")]

#[path = "../../../ashlar-c/tests/common/built.rs"]
mod built;

use core::sync::atomic::{AtomicU32, Ordering};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

use crate::common::{ashlar, scratch, text};

pub(crate) use built::built;

/// Says, in a way that a log can be searched for, that a machine cannot do what a test needs.
pub(crate) fn skipped(why: &str) {
    println!("SKIPPED: {why}");
}

/// The library that programs preload.
pub(crate) fn library() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built("ashlar-malloc").join("libashlar_malloc.so")).clone()
}

/// Compiles `tests/c/SOURCE`; the program's path.
pub(crate) fn build(source: &str, flags: &[&str]) -> PathBuf {
    let program = scratch(source.trim_end_matches(".c")).join(source.trim_end_matches(".c"));
    std::fs::create_dir_all(program.parent().expect("a folder")).expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
    let out = Command::new("cc").arg("-o").arg(&program).arg(source).args(flags).output().expect("cc runs");
    assert!(out.status.success(), "{}", text(&out.stderr));
    program
}

/// A process that ends with this value.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    pub(crate) pid: String,
    /// The first line that it printed.
    pub(crate) said: String,
}

impl Running {
    /// Starts a program, and waits for nothing.
    pub(crate) fn of(command: &mut Command) -> Running {
        let child = command.spawn().expect("it starts");
        Running { pid: child.id().to_string(), child, stdin: None, stdout: None, said: String::new() }
    }

    /// Sends a line, and waits for the line that answers it.
    pub(crate) fn ask(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("a pipe"), "{line}").expect("it reads");
        let mut answer = String::new();
        self.stdout.as_mut().expect("a pipe").read_line(&mut answer).expect("it answers");
    }

    /// Waits for the next line.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.as_mut().expect("a pipe").read_line(&mut line).expect("it prints");
        line
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: the number is that of a child that was not waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a program and waits until it prints a line that begins with "ready"; `None` if it ends
/// without.
pub(crate) fn try_started(mut command: Command) -> Option<Running> {
    command.env_remove("ASHLAR_OPTIONS").env_remove("ASHLAR_STATS");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
    let mut running = Running { pid: child.id().to_string(), child, stdin, stdout: None, said: String::new() };
    let mut stdout = BufReader::new(stdout);
    stdout.read_line(&mut running.said).expect("text");
    running.stdout = Some(stdout);
    running.said.starts_with("ready").then_some(running)
}

pub(crate) fn started(command: Command) -> Running {
    let what = format!("{command:?}");
    try_started(command).unwrap_or_else(|| panic!("{what} does not start"))
}

/// Starts Python on the library; `None` where there is no Python.
pub(crate) fn python(code: &str) -> Option<Running> {
    let mut command = Command::new("python3");
    command.args(["-c", code]).env("LD_PRELOAD", library());
    let running = try_started(command);
    if running.is_none() {
        skipped("no python3");
    }
    running
}

/// The JSON of `ashlar info`.
pub(crate) fn info(pid: &str) -> Value {
    let out = ashlar(&["info", "--json", pid]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

/// Runs a program on the library to its end, and stops it there: the figures that it printed, and
/// those that the tool reads. `None` if it prints none, or cannot be traced.
pub(crate) fn at_exit(program: &[String], options: &str) -> Option<(Value, Value)> {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let log = scratch(&format!("exit-{}", RUNS.fetch_add(1, Ordering::Relaxed)));
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).env("LD_PRELOAD", library()).env("ASHLAR_STATS", "json");
    command.env("ASHLAR_OPTIONS", options).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(std::fs::File::create(&log).expect("a file"));
    // SAFETY: the call takes no memory of the parent, and only marks the child.
    unsafe {
        command.pre_exec(|| {
            if libc::ptrace(libc::PTRACE_TRACEME) == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        })
    };
    let child = command.spawn().ok()?;
    let pid = child.id() as i32;
    let mut seen = None;
    let wait = || {
        let mut status = 0;
        // SAFETY: the status is writable, and the child is this test's own.
        let done = unsafe { libc::waitpid(pid, &mut status, libc::__WALL) };
        (done == pid).then_some(status)
    };
    // The first stop is that of exec.
    wait()?;
    let wish = (libc::PTRACE_O_TRACEEXIT | libc::PTRACE_O_EXITKILL) as usize;
    // SAFETY: the child is stopped and traced by this thread.
    unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, pid, 0usize, wish) };
    let mut signal = 0;
    loop {
        // SAFETY: as above; the signal is the one that the child was about to receive.
        unsafe { libc::ptrace(libc::PTRACE_CONT, pid, 0usize, signal as usize) };
        let status = wait()?;
        if !libc::WIFSTOPPED(status) {
            break;
        }
        if status >> 8 == libc::SIGTRAP | libc::PTRACE_EVENT_EXIT << 8 {
            seen = Some(info(&pid.to_string()));
            signal = 0;
        } else {
            // A program that becomes another one stops by SIGTRAP, which is the tracer's.
            signal = Some(libc::WSTOPSIG(status)).filter(|&signal| signal != libc::SIGTRAP).unwrap_or(0);
        }
    }
    let printed = std::fs::read_to_string(&log).expect("text");
    let _ = std::fs::remove_file(&log);
    let stats =
        printed.lines().rfind(|line| line.starts_with("{\"ashlar\"")).and_then(|line| serde_json::from_str(line).ok());
    Some((stats?, seen?))
}
