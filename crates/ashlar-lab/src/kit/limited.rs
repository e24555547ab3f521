//! Commands that must end: kernels that the lab boots.

use core::time::Duration;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;

/// Runs a command to its end, or for `longest` at most.
pub(crate) fn run(mut command: Command, longest: Duration) -> Result<Output, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|error| format!("cannot start: {error}"))?;
    let pid = child.id().cast_signed();
    let (done, ended) = mpsc::channel::<()>();
    let watch = thread::spawn(move || {
        let late = ended.recv_timeout(longest) == Err(RecvTimeoutError::Timeout);
        if late {
            // SAFETY: takes numbers only. The child's is its own until it was waited for, and then
            // `done` is dropped.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        late
    });
    let output = child.wait_with_output().map_err(|error| error.to_string());
    drop(done);
    match watch.join() {
        Ok(true) => Err(format!("did not end in {} s and was killed", longest.as_secs())),
        _ => output,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_hangs_is_killed() {
        let sleep = |seconds: &str| {
            let mut command = Command::new("sleep");
            command.arg(seconds);
            run(command, Duration::from_secs(2))
        };
        assert!(sleep("0").expect("ends by itself").status.success());
        assert_eq!(sleep("100").expect_err("killed"), "did not end in 2 s and was killed");
    }
}
