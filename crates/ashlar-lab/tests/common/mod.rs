//! Running the tool from outside: what the test files share.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The tool.
pub(crate) const ASHLAR: &str = env!("CARGO_BIN_EXE_ashlar-lab");

/// A command without what this environment says to allocators.
pub(crate) fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.env_remove("LD_PRELOAD");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ASHLAR_") {
            command.env_remove(name);
        }
    }
    command
}

/// What the tool says to these arguments.
pub(crate) fn ashlar(args: &[&str]) -> Output {
    command(ASHLAR).args(args).output().expect("the tool runs")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A path for a file or directory of this test process alone.
pub(crate) fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}

/// Each case, behind `prefix`, is bad input: exit code 2, an error that contains what stands beside
/// it, and no result.
#[track_caller]
pub(crate) fn refused(prefix: &[&str], cases: &[(&[&str], &str)]) {
    for (args, expected) in cases {
        let args = [prefix, args].concat();
        let out = ashlar(&args);
        let message = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: no `{expected}` in: {message}");
        assert!(out.stdout.is_empty(), "{args:?} printed a result");
    }
}
