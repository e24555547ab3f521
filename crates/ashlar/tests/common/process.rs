//! Children of the test binary, random numbers and patterns: helpers that do not use the allocator.
//!
//! Some tests need a process of their own, because the allocator starts once per process and some
//! programs are meant to abort. Such a test runs itself again. [`child`] starts the test binary
//! with a filter for this one test, and the same call in the child runs the body and exits.
#![allow(dead_code, reason = "each test file uses only some of it")]

use core::time::Duration;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

/// Environment variable that holds the child's role.
const ROLE: &str = "ASHLAR_TEST_ROLE";
/// Printed by a child that reached the end of its body. So a filter that matches no test is not
/// taken as success.
const DONE: &str = "ASHLAR-TEST-DONE";
/// The longest time of a child. One that hangs fails its test instead of blocking it.
const WATCHDOG: Duration = Duration::from_secs(150);

/// The result of a child.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) finished: bool,
}

impl Child {
    /// Asserts that the body ran to its end.
    #[track_caller]
    pub(crate) fn succeeded(self) -> Child {
        let ok = self.status.success() && self.finished;
        assert!(ok, "child failed: {}\n--- stdout\n{}\n--- stderr\n{}", self.status, self.stdout, self.stderr);
        self
    }

    /// Returns the value that the child printed by [`tell`] under `key`.
    #[track_caller]
    pub(crate) fn told(&self, key: &str) -> &str {
        let prefix = format!("{key}: ");
        let line = self.stdout.lines().find_map(|line| line.strip_prefix(&prefix));
        line.unwrap_or_else(|| panic!("the child printed no {key}\n{}\n{}", self.stdout, self.stderr))
    }
}

/// Prints a value for the parent.
pub(crate) fn tell(key: &str, value: impl core::fmt::Display) {
    println!("\n{key}: {value}");
}

/// Returns a command that runs this binary. `ASHLAR_TEST_RUNNER` holds the words before it, such as
/// an emulator and its options.
fn this_program() -> Command {
    let path = std::env::current_exe().expect("the test binary has a path");
    let runner = std::env::var("ASHLAR_TEST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(first) = words.next() else { return Command::new(path) };
    let mut command = Command::new(first);
    command.args(words).arg(path);
    command
}

/// Runs a test in a child process.
///
/// In the parent: runs the test `test` of this binary again, alone, with the given environment, and
/// returns its result. In that child: runs `body` and exits.
pub(crate) fn child(test: &str, role: &str, env: &[(&str, &str)], body: impl FnOnce()) -> Option<Child> {
    match std::env::var(ROLE) {
        Ok(mine) if mine == role => {
            body();
            println!("\n{DONE}");
            // The harness must not continue, because the allocator may be in any state.
            std::process::exit(0);
        }
        Ok(_) => return None,
        Err(_) => {}
    }
    let mut command = this_program();
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env_remove("ASHLAR_OPTIONS").env_remove("GLIBC_TUNABLES").env(ROLE, role);
    command.envs(env.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("the test binary runs");
    let (out, err) = (process.stdout.take(), process.stderr.take());
    let stdout = std::thread::spawn(move || read_all(out));
    let stderr = std::thread::spawn(move || read_all(err));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = process.try_wait().expect("the child is ours") {
            break status;
        }
        if start.elapsed() > WATCHDOG {
            process.kill().expect("the child is ours");
            break process.wait().expect("the child is ours");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let stdout = stdout.join().expect("reader");
    let finished = stdout.lines().any(|line| line == DONE);
    Some(Child { status, stdout, stderr: stderr.join().expect("reader"), finished })
}

/// Returns true in the parent, which has no role.
pub(crate) fn is_parent() -> bool {
    std::env::var_os(ROLE).is_none()
}

fn read_all(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes).expect("a pipe can be read");
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Pseudo-random numbers (xorshift64*), the same in every run with the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Returns a number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

/// Returns byte `i` of the pattern of `token`.
fn pattern(token: u64, i: usize) -> u8 {
    (token >> (8 * (i % 8))) as u8 ^ (i / 8) as u8
}

/// Largest end of an object that carries the pattern. Filling the middle of larger objects would
/// only test the system's page faults.
const ENDS: usize = 64 << 10;

fn pattern_ranges(size: usize) -> [core::ops::Range<usize>; 2] {
    if size <= 2 * ENDS { [0..size, 0..0] } else { [0..ENDS, size - ENDS..size] }
}

/// Writes the pattern of `token` over an object.
///
/// # Safety
/// `ptr` is valid for `size` bytes, and no other thread uses them.
pub(crate) unsafe fn fill(ptr: *mut u8, size: usize, token: u64) {
    for range in pattern_ranges(size) {
        for i in range {
            // SAFETY: below `size`.
            unsafe { ptr.add(i).write(pattern(token, i)) };
        }
    }
}

/// Checks the first `size` bytes of an object that [`fill`] wrote with a size of `whole`.
///
/// # Safety
/// `ptr` is valid for `size` bytes, and no other thread writes to them.
#[track_caller]
pub(crate) unsafe fn check(ptr: *const u8, size: usize, whole: usize, token: u64) {
    for range in pattern_ranges(whole) {
        for i in range.start.min(size)..range.end.min(size) {
            // SAFETY: below `size`.
            let byte = unsafe { ptr.add(i).read() };
            assert_eq!(byte, pattern(token, i), "byte {i} of {whole} at {ptr:?} is not its owner's");
        }
    }
}
