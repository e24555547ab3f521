//! Finds processes on ashlar, and says why one cannot be read.

use core::ops::Range;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ashlar::window::{NAME, Window};

use super::memory::{ReadError, Reader, printable};
use super::proc::Process;
use super::report::{Allocator, FORM, Report};
use super::samples;
use super::snapshot::{self, NoSnapshot};
use crate::error::ToolError;
use crate::profile::read::{self, Map, Profile};
use crate::program;

/// The most bytes that are read of a process, beside a share of what it ever had resident.
const BUDGET: u64 = 256 << 20;
const SHARE: u64 = 32;
/// The most bytes that are read for a heap profile: all samples that there is room for.
const PROFILE_BUDGET: u64 = 1 << 30;
/// The most bytes of the list of mappings.
const MAX_MAPS: u64 = 64 << 20;
/// The most windows of a process.
const MAX_WINDOWS: usize = 16;

/// A process. The handle stays that of this process, even if its number is used again.
pub(super) struct Target {
    process: Process,
    pub(super) pid: i32,
    pub(super) name: String,
    state: char,
    started: u64,
    mappings: Vec<Mapping>,
}

/// Where a file is mapped.
struct Mapping {
    addresses: Range<u64>,
    path: String,
}

/// Why a process cannot be looked at.
#[derive(Debug)]
pub(super) enum Refusal {
    Gone,
    Zombie,
    /// Another user's process; its number.
    OtherUser(u32),
    /// Not on ashlar.
    Foreign,
    /// On ashlar, without a window.
    NoWindow,
    OtherFormat {
        version: String,
        format: u32,
    },
    /// The kernel allows only debuggers; the value of `kernel.yama.ptrace_scope`.
    NotAllowed(String),
    Unreadable(ReadError),
    System(String),
}

/// How a process stands to ashlar.
pub(crate) enum Standing {
    /// On it.
    On(Box<Report>),
    /// On it, without a window; its name.
    NoWindow(String),
    /// Not on it; its name.
    Foreign(String),
}

impl Standing {
    /// Returns the name of the process.
    pub(crate) fn name(&self) -> &str {
        match self {
            Standing::On(report) => &report.name,
            Standing::NoWindow(name) | Standing::Foreign(name) => name,
        }
    }
}

/// Looks at a process that the user named, on ashlar or not.
pub(crate) fn standing(pid: i32) -> Result<Standing, ToolError> {
    let target = Target::open(pid).map_err(|(refusal, name)| refusal.error(pid, &name))?;
    match target.report() {
        Ok(report) => Ok(Standing::On(Box::new(report))),
        Err(Refusal::NoWindow) => Ok(Standing::NoWindow(target.name)),
        Err(Refusal::Foreign) => Ok(Standing::Foreign(target.name)),
        Err(refusal) => Err(refusal.error(pid, &target.name)),
    }
}

impl Refusal {
    /// Returns the error for a process that the user named.
    pub(super) fn error(&self, pid: i32, name: &str) -> ToolError {
        let who = if name.is_empty() { format!("PID: {pid}") } else { format!("PID: {pid} ({name})") };
        ToolError::Usage(match self {
            Refusal::Gone => format!("PID: {pid}: no such process"),
            Refusal::Zombie => format!("{who}: it has ended, and waits for its parent (zombie)"),
            Refusal::OtherUser(user) => {
                format!("{who}: a process of another user ({user}): only that user and root may read it")
            }
            Refusal::Foreign => format!("{who}: not on ashlar; `ashlar ps` lists the processes that are"),
            Refusal::NoWindow => format!(
                "{who}: on ashlar, but without a window: it was started with window=off, or the system refused \
                 memfd_create, or its library is older than the window"
            ),
            Refusal::OtherFormat { version, format } => format!(
                "{who}: on ashlar {version}, whose window has format {format}; this tool is of {} and reads format {}",
                env!("CARGO_PKG_VERSION"),
                ashlar::window::FORMAT
            ),
            Refusal::NotAllowed(scope) => format!(
                "{who}: the kernel does not allow its memory to be read (kernel.yama.ptrace_scope is {scope}): root may"
            ),
            Refusal::Unreadable(error) => format!("{who}: {error}"),
            Refusal::System(message) => format!("{who}: {message}"),
        })
    }

    fn of(error: &io::Error) -> Refusal {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => Refusal::Gone,
            _ => Refusal::System(error.to_string()),
        }
    }
}

impl Target {
    /// Opens a process. The name is that of the process as far as it is known.
    pub(super) fn open(pid: i32) -> Result<Target, (Refusal, String)> {
        let process = Process::open(pid).map_err(|error| (Refusal::of(&error), String::new()))?;
        let stat = process.stat().map_err(|error| (Refusal::of(&error), String::new()))?;
        let name = printable(&stat.name);
        let fail = |refusal| (refusal, name.clone());
        if stat.state == 'Z' {
            return Err(fail(Refusal::Zombie));
        }
        let mappings = mappings(&process).map_err(fail)?;
        Ok(Target { pid, process, state: stat.state, started: stat.started, mappings, name })
    }

    /// Returns the addresses of its windows.
    pub(super) fn windows(&self) -> Result<Vec<u64>, Refusal> {
        let named = format!("/memfd:{NAME} (deleted)");
        let windows = self.mappings.iter().filter(|mapping| mapping.path == named);
        let windows: Vec<u64> = windows.map(|mapping| mapping.addresses.start).take(MAX_WINDOWS).collect();
        let on_library = || self.mappings.iter().any(|mapping| mapping.path.contains("/libashlar_malloc.so"));
        match () {
            () if !windows.is_empty() => Ok(windows),
            () if on_library() => Err(self.ended().unwrap_or(Refusal::NoWindow)),
            () => Err(self.ended().unwrap_or(Refusal::Foreign)),
        }
    }

    /// Returns the refusal if it has ended, or is about to. Then it has no mappings, or had lost
    /// some when they were listed. A thread of the kernel never has any.
    fn ended(&self) -> Option<Refusal> {
        match self.process.stat() {
            Ok(stat) if stat.state == 'Z' => Some(Refusal::Zombie),
            Ok(stat) if stat.is_kernel => None,
            Ok(_) => match mappings(&self.process) {
                Ok(found) if found.is_empty() => Some(Refusal::Unreadable(ReadError::Ended)),
                Ok(_) => None,
                Err(refusal) => Some(refusal),
            },
            Err(error) => Some(Refusal::of(&error)),
        }
    }

    /// Returns its windows.
    pub(super) fn every_window(&self) -> Result<Vec<Window>, Refusal> {
        let memory = self.process.file(c"mem").map_err(|error| Refusal::of(&error))?;
        let reader = super::memory::Reader::new(&memory, BUDGET);
        self.windows()?.into_iter().map(|at| snapshot::window(&reader, at).map_err(refusal)).collect()
    }

    /// Opens its memory for letters.
    pub(super) fn writable(&self) -> Result<std::fs::File, Refusal> {
        self.process.file_to_write(c"mem").map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => not_allowed(),
            _ => Refusal::of(&error),
        })
    }

    /// Reads all of its allocators.
    pub(super) fn report(&self) -> Result<Report, Refusal> {
        let windows = self.windows()?;
        let status = self.process.status().map_err(|error| Refusal::of(&error))?;
        let memory = self.process.file(c"mem").map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => not_allowed(),
            _ => Refusal::of(&error),
        })?;
        let budget = BUDGET.saturating_add(status.peak_kib.saturating_mul(1024) / SHARE);
        let mut allocators = Vec::new();
        let mut failed = None;
        for at in windows {
            match snapshot::take(&memory, at, budget) {
                Ok(allocator) => allocators.push(self.located(allocator, &memory, at)),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if allocators.is_empty() => return Err(refusal(error)),
            _ => {}
        }
        let options = self.options();
        allocators.iter_mut().for_each(|allocator| allocator.options.clone_from(&options));
        let inner_pid = status.pids.last().copied().filter(|&inner| inner != self.pid);
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        Ok(Report {
            form: FORM,
            pid: self.pid,
            inner_pid,
            name: self.name.clone(),
            state: self.state,
            time,
            started: self.started,
            rss_kib: status.rss_kib,
            peak_kib: status.peak_kib,
            allocators,
        })
    }

    /// Opens its memory to read heap profiles.
    pub(super) fn snapshot(&self) -> Result<Snapshot, Refusal> {
        let windows = self.windows()?;
        let memory = self.process.file(c"mem").map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => not_allowed(),
            _ => Refusal::of(&error),
        })?;
        let mut maps = Vec::new();
        let file = self.process.file(c"maps").map_err(|error| Refusal::of(&error))?;
        file.take(MAX_MAPS).read_to_end(&mut maps).map_err(|error| Refusal::of(&error))?;
        let mut maps = read::maps(String::from_utf8_lossy(&maps).lines());
        // A process with another root has other files.
        for map in maps.iter_mut().filter(|map| map.path.starts_with('/') && !Path::new(&map.path).exists()) {
            map.path = format!("/proc/{}/root{}", self.pid, map.path);
        }
        Ok(Snapshot { memory, windows, maps, pid: self.pid })
    }

    /// Names the file that contains the allocator: that in which its registry lies.
    fn located(&self, mut allocator: Allocator, memory: &std::fs::File, at: u64) -> Allocator {
        let reader = super::memory::Reader::new(memory, BUDGET);
        if let Ok(window) = snapshot::window(&reader, at) {
            let mapping = self.mappings.iter().find(|mapping| mapping.addresses.contains(&window.places.registry));
            allocator.file = mapping.map_or_else(|| "?".to_owned(), |mapping| mapping.path.clone());
        }
        allocator
    }

    /// Returns `ASHLAR_OPTIONS` as the process was started with.
    fn options(&self) -> String {
        self.process.variable("ASHLAR_OPTIONS").map_or_else(String::new, |options| printable(&options))
    }
}

/// The memory of a process, to read heap profiles.
pub(super) struct Snapshot {
    memory: std::fs::File,
    windows: Vec<u64>,
    maps: Vec<Map>,
    pid: i32,
}

impl Snapshot {
    /// Returns a reader of the memory.
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader::new(&self.memory, PROFILE_BUDGET)
    }

    /// Returns the heap profiles of the process, which are those of its allocators, and the window
    /// of each.
    pub(super) fn profiles(&self) -> Result<Vec<(Window, Profile)>, Refusal> {
        let now = samples::now_ms();
        let mut found = Vec::new();
        for &at in &self.windows {
            let reader = self.reader();
            let window = snapshot::window(&reader, at).map_err(refusal)?;
            if let Some(mut profile) = samples::read(&reader, &window, now).map_err(Refusal::Unreadable)? {
                (profile.pid, profile.maps) = (self.pid as u64, self.maps.clone());
                found.push((window, profile));
            }
        }
        Ok(found)
    }
}

fn not_allowed() -> Refusal {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    Refusal::NotAllowed(scope.map_or("unknown".to_owned(), |scope| scope.trim().to_owned()))
}

fn refusal(error: NoSnapshot) -> Refusal {
    match error {
        NoSnapshot::NoWindow => Refusal::Foreign,
        NoSnapshot::OtherFormat { version, format } => Refusal::OtherFormat { version, format },
        NoSnapshot::Unreadable(error) => Refusal::Unreadable(error),
    }
}

/// Returns the mappings that have a path.
fn mappings(process: &Process) -> Result<Vec<Mapping>, Refusal> {
    let denied = || match process.user() {
        Ok(user) if user == program::effective_user() => not_allowed(),
        Ok(user) => Refusal::OtherUser(user),
        Err(_) => Refusal::Gone,
    };
    let file = process.file(c"maps").map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => denied(),
        _ => Refusal::of(&error),
    })?;
    let mut bytes = Vec::new();
    file.take(MAX_MAPS).read_to_end(&mut bytes).map_err(|error| match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => denied(),
        Some(libc::ESRCH) => Refusal::Gone,
        _ => Refusal::System(error.to_string()),
    })?;
    Ok(bytes.split(|&byte| byte == b'\n').filter_map(mapping).collect())
}

/// Reads a line of the list of mappings: addresses, access, offset, device, inode, path.
fn mapping(line: &[u8]) -> Option<Mapping> {
    let path = line.iter().position(|&byte| byte == b'/')?;
    let (start, end) = core::str::from_utf8(line.split(|&byte| byte == b' ').next()?).ok()?.split_once('-')?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping { addresses: address(start)?..address(end)?, path: printable(&line[path..]) })
}
