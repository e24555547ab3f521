//! One run of one process, and what the kernel says it took.

use core::time::Duration;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::experiments::programs::plan::systems::System;

/// What a process took, with all children that it waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) elapsed: Duration,
    pub(crate) user: Duration,
    pub(crate) sys: Duration,
    /// The kernel also counts the memory of the process that started it: never less than what this
    /// tool has.
    pub(crate) peak_rss_kib: u64,
    /// Without pages of files; known for the programs that say it themselves.
    pub(crate) peak_anon_kib: Option<u64>,
    pub(crate) minor_faults: u64,
    pub(crate) context_switches: u64,
}

/// Gives back what this tool no longer needs and lets the kernel forget the most it ever had: that
/// would count as the memory of each process that it starts. Where the kernel refuses, small
/// programs show the tool's memory instead.
pub(crate) fn shrink_self() {
    // SAFETY: takes no pointer; gives free memory of the C library's malloc back to the system.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
    // 5 stands for the peak of resident memory, see proc_pid_clear_refs(5).
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Runs `command` to its end; its output is `Ok` if it ended well, and what it said if not.
pub(crate) fn run(mut command: Command) -> Result<(Usage, String), String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("cannot start {:?}: {error}", command.get_program()))?;
    let pipes = (child.stdout.take(), child.stderr.take());
    // What is read here is at most a few lines, so that neither pipe fills while the other is read.
    let (mut out, mut err) = (String::new(), String::new());
    let read = pipes.0.map_or(Ok(0), |mut pipe| pipe.read_to_string(&mut out));
    let read = read.and_then(|_| pipes.1.map_or(Ok(0), |mut pipe| pipe.read_to_string(&mut err)));
    let usage = wait(child, start).map_err(|error| reason(&err, error))?;
    read.map_err(|error| format!("its output: {error}"))?;
    Ok((usage, out))
}

/// Why a process failed: how it ended, and the first lines that it said.
pub(crate) fn reason(said: &str, ended: String) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).take(4).collect();
    if lines.is_empty() { ended } else { format!("{ended}: {}", lines.join("; ")) }
}

/// Waits for the end of `child`, started at `start`. The error says how it ended, if not well.
pub(crate) fn wait(child: Child, start: Instant) -> Result<Usage, String> {
    let pid = i32::try_from(child.id()).map_err(|_| "its number is out of range".to_owned())?;
    let mut status = 0;
    // SAFETY: `rusage` is made of integers, for which all bits zero is a value.
    let mut rusage: libc::rusage = unsafe { core::mem::zeroed() };
    // SAFETY: both places are live; the process is our child, and no other thread waits for it:
    // `child` is ours.
    while unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut rusage) } != pid {
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(format!("wait4: {error}"));
        }
    }
    let elapsed = start.elapsed();
    if libc::WIFSIGNALED(status) {
        return Err(format!("killed by signal {}", libc::WTERMSIG(status)));
    }
    if libc::WEXITSTATUS(status) != 0 {
        return Err(format!("ended with code {}", libc::WEXITSTATUS(status)));
    }
    let time = |t: libc::timeval| Duration::new(t.tv_sec.cast_unsigned(), 1000 * u32::try_from(t.tv_usec).unwrap_or(0));
    Ok(Usage {
        elapsed,
        user: time(rusage.ru_utime),
        sys: time(rusage.ru_stime),
        peak_rss_kib: rusage.ru_maxrss.cast_unsigned(),
        peak_anon_kib: None,
        minor_faults: rusage.ru_minflt.cast_unsigned(),
        context_switches: (rusage.ru_nvcsw + rusage.ru_nivcsw).cast_unsigned(),
    })
}

/// Waits until the library of `system` is mapped into `child`; fails if it ends before.
pub(crate) fn watch(child: &Child, system: &System) -> Result<(), String> {
    let Some(library) = &system.preload else { return Ok(()) };
    let file = library.canonicalize().unwrap_or_else(|_| library.clone());
    loop {
        // A process that has ended has no mappings.
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", child.id())).unwrap_or_default();
        if maps.contains(&*file.to_string_lossy()) {
            return Ok(());
        }
        if maps.is_empty() {
            return Err(format!("the preload has no effect: {} was never mapped", file.display()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<(Usage, String), String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command)
    }

    #[test]
    fn a_process_is_measured_and_its_output_kept() {
        let (usage, out) = shell("echo fine; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done").unwrap();
        assert_eq!(out, "fine\n");
        assert!(usage.user + usage.sys > Duration::ZERO && usage.peak_rss_kib > 100 && usage.minor_faults > 10);
        assert!(usage.elapsed > Duration::ZERO);
    }

    #[test]
    fn memory_that_the_tool_had_before_is_not_that_of_its_children() {
        let large = core::hint::black_box(vec![1u8; 64 << 20]);
        assert!(shell(":").unwrap().0.peak_rss_kib > 60 << 10, "the kernel no longer counts so");
        drop(large);
        shrink_self();
        assert!(shell(":").unwrap().0.peak_rss_kib < 40 << 10);
    }

    #[test]
    fn a_bad_end_is_told() {
        assert_eq!(shell("exit 3").unwrap_err(), "ended with code 3");
        assert_eq!(shell("kill -9 $$").unwrap_err(), "killed by signal 9");
        assert_eq!(shell("echo why >&2; exit 1").unwrap_err(), "ended with code 1: why");
        assert!(run(Command::new("/no/such/program")).unwrap_err().contains("cannot start"));
    }
}
