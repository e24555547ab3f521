//! What a process took, by the kernel's account.

use core::fmt;
use core::time::Duration;
use std::io;
use std::process::Child;
use std::time::Instant;

use serde::{Deserialize, Serialize, Serializer};

/// What a process took, with all descendants that it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// From the start of the process to its end.
    #[serde(rename = "elapsed_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub elapsed: Duration,
    /// CPU time in user mode.
    #[serde(rename = "user_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub user: Duration,
    /// CPU time in the kernel.
    #[serde(rename = "system_s", serialize_with = "seconds", deserialize_with = "from_seconds")]
    pub system: Duration,
    /// Most resident memory of the largest of these processes.
    ///
    /// The kernel counts what a process had before it became another program, too: never less than
    /// what was copied of the process that started it.
    pub peak_kib: u64,
    /// Page faults without input or output.
    pub minor_faults: u64,
    /// Page faults that read from a file.
    pub major_faults: u64,
    /// Context switches because a process waited.
    pub voluntary_switches: u64,
    /// Context switches because the kernel ran something else.
    pub involuntary_switches: u64,
}

impl Usage {
    /// Returns the CPU time, in user mode and in the kernel.
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn from_seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// By itself, with an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with exit code {code}"),
            Self::Signal(signal) => write!(f, "was killed by signal {signal}{}", named(*signal)),
        }
    }
}

/// The name of a signal that ends programs by themselves or from outside, in parentheses.
fn named(signal: i32) -> &'static str {
    match signal {
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGHUP => " (SIGHUP)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGINT => " (SIGINT)",
        libc::SIGKILL => " (SIGKILL)",
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGTERM => " (SIGTERM)",
        _ => "",
    }
}

/// Waits for the end of `child`, started at `start`.
pub fn wait(child: Child, start: Instant) -> io::Result<(End, Usage)> {
    wait_with(child, start, None)
}

/// As [`wait`]; calls `look` all the time while the process runs, with a pause of a millisecond
/// between.
pub(crate) fn watch(child: Child, start: Instant, look: &mut dyn FnMut()) -> io::Result<(End, Usage)> {
    wait_with(child, start, Some(look))
}

#[expect(clippy::needless_pass_by_value, reason = "a child that was waited for cannot be waited for again")]
#[expect(unsafe_code, reason = "the standard library has no wait that says what a process took")]
fn wait_with(child: Child, start: Instant, mut look: Option<&mut dyn FnMut()>) -> io::Result<(End, Usage)> {
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let mut status = 0;
    // SAFETY: `rusage` is made of integers, for which all bits zero is a value.
    let mut rusage: libc::rusage = unsafe { core::mem::zeroed() };
    let flags = if look.is_some() { libc::WNOHANG } else { 0 };
    loop {
        // SAFETY: both places are live. The process is our child and was not waited for: `child` is
        // ours, and the standard library waits only when it is asked to.
        let ended = unsafe { libc::wait4(pid, &raw mut status, flags, &raw mut rusage) };
        if ended == pid {
            break;
        }
        if ended < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        if let Some(look) = &mut look {
            look();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let elapsed = start.elapsed();
    let end = if libc::WIFSIGNALED(status) {
        End::Signal(libc::WTERMSIG(status))
    } else {
        End::Code(libc::WEXITSTATUS(status))
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec.cast_unsigned(), 1000 * u32::try_from(t.tv_usec).unwrap_or(0));
    let usage = Usage {
        elapsed,
        user: time(rusage.ru_utime),
        system: time(rusage.ru_stime),
        peak_kib: rusage.ru_maxrss.cast_unsigned(),
        minor_faults: rusage.ru_minflt.cast_unsigned(),
        major_faults: rusage.ru_majflt.cast_unsigned(),
        voluntary_switches: rusage.ru_nvcsw.cast_unsigned(),
        involuntary_switches: rusage.ru_nivcsw.cast_unsigned(),
    };
    Ok((end, usage))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn shell(script: &str) -> (End, Usage) {
        let start = Instant::now();
        wait(Command::new("sh").args(["-c", script]).spawn().unwrap(), start).unwrap()
    }

    #[test]
    fn a_process_is_measured() {
        let (end, usage) = shell("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3");
        assert_eq!(end, End::Code(3));
        assert!(usage.cpu() > Duration::ZERO && usage.peak_kib > 100 && usage.minor_faults > 10, "{usage:?}");
        assert!(usage.elapsed >= usage.cpu() / 2, "{usage:?}");
        assert_eq!(shell("kill -9 $$").0.to_string(), "was killed by signal 9 (SIGKILL)");
    }

    #[test]
    fn descendants_that_were_waited_for_count() {
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let (alone, nested) = (shell(":").1, shell(&format!("sh -c '{work}'; :")).1);
        assert!(nested.cpu() > alone.cpu() + Duration::from_millis(10), "{alone:?} {nested:?}");
        let (_, dozing) = shell("sleep 0.01; sleep 0.01; :");
        assert!(dozing.voluntary_switches >= 2, "{dozing:?}");
    }

    #[test]
    fn a_process_is_watched_while_it_runs() {
        let mut looks = 0;
        let start = Instant::now();
        let child = Command::new("sleep").arg("0.05").spawn().unwrap();
        let (end, usage) = watch(child, start, &mut || looks += 1).unwrap();
        assert!(looks > 1 && end == End::Code(0) && usage.elapsed >= Duration::from_millis(50));
    }

    #[test]
    fn usage_is_written_in_seconds_and_read_again() {
        let usage = Usage { elapsed: Duration::from_millis(1500), peak_kib: 7, ..Usage::default() };
        let text = serde_json::to_string(&usage).unwrap();
        assert!(text.contains("\"elapsed_s\":1.5"), "{text}");
        assert_eq!(serde_json::from_str::<Usage>(&text).unwrap(), usage);
    }
}
