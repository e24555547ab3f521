//! What `/proc` says of a process, by a handle that no other process can take over.

use core::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{Mode, OFlags, openat};

/// A process: an open `/proc/PID`. When the process has ended, every read fails, even if its number
/// is used again.
pub(super) struct Process {
    directory: File,
}

/// The fields that are used of `/proc/PID/stat`.
pub(super) struct Stat {
    /// The name, at most 15 bytes, as the process wrote it.
    pub(super) name: Vec<u8>,
    pub(super) state: char,
    /// Whether it is a thread of the kernel, which has no memory of its own.
    pub(super) is_kernel: bool,
    /// When it started, in clock ticks since the system did.
    pub(super) started: u64,
}

/// The fields that are used of `/proc/PID/status`. Kernel threads have no memory.
#[derive(Default)]
pub(super) struct Status {
    pub(super) rss_kib: u64,
    pub(super) peak_kib: u64,
    /// Its number in each of its PID namespaces, the innermost last.
    pub(super) pids: Vec<i32>,
}

impl Process {
    pub(super) fn open(pid: i32) -> io::Result<Process> {
        Ok(Process { directory: File::open(format!("/proc/{pid}"))? })
    }

    /// Opens one of its files.
    pub(super) fn file(&self, name: &CStr) -> io::Result<File> {
        Ok(File::from(openat(&self.directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// Opens one of its files for reading and writing.
    pub(super) fn file_to_write(&self, name: &CStr) -> io::Result<File> {
        Ok(File::from(openat(&self.directory, name, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?))
    }

    fn bytes(&self, name: &CStr) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(name)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns the number of the user who may look at it.
    pub(super) fn user(&self) -> io::Result<u32> {
        Ok(self.directory.metadata()?.uid())
    }

    pub(super) fn stat(&self) -> io::Result<Stat> {
        stat(&self.bytes(c"stat")?).ok_or_else(|| malformed("stat"))
    }

    pub(super) fn status(&self) -> io::Result<Status> {
        Ok(status(&String::from_utf8_lossy(&self.bytes(c"status")?)))
    }

    /// Returns a variable of the environment that it was started with.
    pub(super) fn variable(&self, name: &str) -> Option<Vec<u8>> {
        let environment = self.bytes(c"environ").ok()?;
        let mut variables = environment.split(|&byte| byte == 0);
        variables.find_map(|variable| Some(variable.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?.to_vec()))
    }
}

/// Returns the numbers of all processes, in their order.
pub(super) fn all() -> io::Result<Vec<i32>> {
    let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
    let mut pids: Vec<i32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

fn malformed(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc/PID/{name} has an unknown form"))
}

/// `PF_KTHREAD` of the kernel.
const KERNEL_THREAD: u64 = 0x20_0000;

/// The name stands in parentheses and may contain any byte, so that the last one ends it.
fn stat(bytes: &[u8]) -> Option<Stat> {
    let start = bytes.iter().position(|&byte| byte == b'(')?;
    let end = bytes.iter().rposition(|&byte| byte == b')')?;
    let name = bytes.get(start + 1..end)?.to_vec();
    let mut fields = core::str::from_utf8(&bytes[end + 1..]).ok()?.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // The 9th and the 22nd field of proc(5); the state is the third.
    let flags: u64 = fields.nth(5)?.parse().ok()?;
    let started = fields.nth(12)?.parse().ok()?;
    Some(Stat { name, state, is_kernel: flags & KERNEL_THREAD != 0, started })
}

fn status(text: &str) -> Status {
    let field = |name| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = |name| field(name).and_then(|value| value.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0);
    let pids = field("NSpid").unwrap_or_default().split_ascii_whitespace().flat_map(str::parse).collect();
    Status { rss_kib: kib("VmRSS"), peak_kib: kib("VmHWM"), pids }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_contain_parentheses_and_lines() {
        let line = b"71 (a) R 1 (\n2)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21\n";
        let stat = stat(line).expect("the form of the kernel");
        assert_eq!((stat.name.as_slice(), stat.state, stat.started), (b"a) R 1 (\n2)".as_slice(), 'S', 4711));
        assert!(!stat.is_kernel);
        let line = b"2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 4 0 0\n";
        assert!(super::stat(line).is_some_and(|stat| stat.is_kernel && stat.started == 4));
    }

    #[test]
    fn a_line_that_ends_early_is_none() {
        for line in [b"".as_slice(), b"71 (a", b"71 (a)", b")71(", b"71 (a) S 1 2 3", b"71 (a) S \xff"] {
            assert!(stat(line).is_none(), "{line:?}");
        }
    }

    #[test]
    fn status_of_a_kernel_thread_has_no_memory() {
        let found = status("Name:\tkthreadd\nNSpid:\t2\t1\n");
        assert_eq!((found.rss_kib, found.peak_kib, found.pids), (0, 0, vec![2, 1]));
        let found = status("VmHWM:\t    5120 kB\nVmRSS:\t    4096 kB\n");
        assert_eq!((found.rss_kib, found.peak_kib), (4096, 5120));
    }

    #[test]
    fn this_process_is_known() {
        let pid = std::process::id().cast_signed();
        let process = Process::open(pid).expect("this process");
        assert!(matches!(process.stat().expect("stat").state, 'R' | 'S'));
        assert!(process.status().expect("status").rss_kib > 0);
        assert!(all().expect("/proc").contains(&pid));
        assert!(process.variable("ASHLAR_NO_SUCH_VARIABLE").is_none());
    }

    #[test]
    fn a_handle_does_not_follow_its_number() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let process = Process::open(child.id().cast_signed()).expect("the child");
        assert_eq!(process.stat().expect("stat").name, b"sleep");
        child.kill().expect("our child");
        child.wait().expect("our child");
        assert!(process.stat().is_err() && process.file(c"maps").is_err());
    }
}
