//! `ashlar workload NAME`: one process that does fixed work on whatever malloc it was started with.
//!
//! `ashlar bench programs` starts these, each with a library preloaded. The process finds out whose malloc answers before
//! it works, so that no figure is ever of another allocator than it says; it prints a checksum that must be the same on
//! every allocator. This tool's own collections use the same malloc (Rust's system allocator calls it), as a program's
//! would. The patterns are those of well-known benchmarks, written anew from what they are known to do: see the table
//! [`WORKLOADS`].

pub(crate) mod block;
mod single;
mod threads;

use core::ffi::CStr;
use core::time::Duration;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::kit::error::CliError;
use crate::kit::memory::kib_line;
use crate::kit::output;
use crate::registry::args::WorkloadArgs;

/// How much of the usual work is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale(f64);

impl Scale {
    /// Steps of a loop that are `usual` at scale 1; at least one.
    fn steps(self, usual: usize) -> usize {
        ((usual as f64 * self.0) as usize).max(1)
    }

    /// Objects that live at a time: fewer at small scales, never more.
    fn live(self, usual: usize) -> usize {
        ((usual as f64 * self.0.min(1.0)) as usize).max(16)
    }

    /// Times that work with a fixed live set is done.
    fn repeats(self) -> usize {
        (self.0 as usize).max(1)
    }
}

/// A workload: its name, the most threads that allocate at a time, what it is, and the function.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) threads: usize,
    pub(crate) what: &'static str,
    run: fn(Scale) -> u64,
}

/// All workloads. Names that begin with `handover` are the ones of producers and consumers.
#[rustfmt::skip]
pub(crate) static WORKLOADS: [Workload; 20] = [
    Workload { name: "numbers", threads: 1, what: "short-lived blocks of 8 to 64 bytes (as cfrac)", run: single::numbers },
    Workload { name: "sets", threads: 1, what: "lists of small blocks, a long-lived table (as espresso)", run: single::sets },
    Workload { name: "random", threads: 1, what: "65536 places freed and filled at random (as alloc-test)", run: single::random },
    Workload { name: "trees", threads: 1, what: "binary trees built and dropped", run: single::trees },
    Workload { name: "store", threads: 1, what: "key-value store with a limit, least recently used go (as redis)", run: single::store },
    Workload { name: "words", threads: 1, what: "text split, counted, joined, sorted", run: single::words },
    Workload { name: "phases", threads: 1, what: "grow, free nine of ten, go on with other sizes", run: single::phases },
    Workload { name: "large", threads: 1, what: "blocks of 256 KiB to 8 MiB (as malloc-large)", run: single::large },
    Workload { name: "vectors", threads: 1, what: "realloc by doubling, up to 8 MiB", run: single::vectors },
    Workload { name: "zeroed", threads: 1, what: "calloc of 4 to 64 KiB", run: single::zeroed },
    Workload { name: "aligned", threads: 1, what: "posix_memalign by 16 to 4096", run: single::aligned },
    Workload { name: "server2", threads: 2, what: "blocks outlive the threads that made them (as larson)", run: |scale| threads::server(2, scale) },
    Workload { name: "server4", threads: 4, what: "the same with four threads", run: |scale| threads::server(4, scale) },
    Workload { name: "handover", threads: 2, what: "one thread allocates 16 to 1024 bytes, another frees", run: threads::handover },
    Workload { name: "handover-small", threads: 4, what: "two threads allocate 64 bytes, two free (as xmalloc-test)", run: threads::handover_small },
    Workload { name: "crossing", threads: 2, what: "16 to 16000 bytes, a tenth freed by the other thread (as rptest)", run: threads::crossing },
    Workload { name: "churn", threads: 4, what: "threads come and go, a shared table (as mstress)", run: threads::churn },
    Workload { name: "piles", threads: 2, what: "freed last first, first first, or by the other thread (as sh8bench)", run: threads::piles },
    Workload { name: "sharing", threads: 2, what: "blocks written by two threads, own ones (as cache-thrash)", run: threads::sharing_active },
    Workload { name: "sharing-given", threads: 2, what: "the same, after neighbours were handed out (as cache-scratch)", run: threads::sharing_passive },
];

/// What no program does, and is none of the synthetic workloads: it shows what a call costs.
#[rustfmt::skip]
pub(crate) static PAIRS: Workload =
    Workload { name: "pairs", threads: 1, what: "malloc and free of 8, 64 and 512 bytes, and nothing else", run: single::pairs };

impl Workload {
    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        WORKLOADS.iter().chain([&PAIRS]).find(|workload| workload.name == name)
    }
}

/// What the process prints, as one line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Hexadecimal.
    pub(crate) checksum: String,
    /// Most resident memory that the process had (`VmHWM`).
    pub(crate) peak_rss_kib: u64,
    /// The same without pages of files: what malloc, the stacks and the data took. The files are the same for all
    /// systems but for the library itself, and this tool is larger than the workloads that it contains.
    pub(crate) peak_anon_kib: u64,
    /// Resident memory after everything was freed and the process slept; absent if it was not to.
    pub(crate) idle_rss_kib: Option<u64>,
}

/// Entry of the hidden command.
pub(crate) fn main(args: &WorkloadArgs) -> Result<(), CliError> {
    let Some(workload) = Workload::by_name(&args.name) else {
        let names: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).collect();
        return Err(CliError::option("NAME", format_args!("`{}`: expected one of {}", args.name, names.join(", "))));
    };
    check_malloc(args.preload.as_deref())?;
    let checksum = (workload.run)(Scale(args.scale));
    let idle_rss_kib = args.idle.map(|millis| {
        // The sign that the work is done, so that others may begin.
        let _ = output::print("idle\n");
        std::thread::sleep(Duration::from_millis(millis));
        resident_kib()
    });
    let peak_rss_kib = status_kib("VmHWM:");
    let answer = Answer {
        checksum: format!("{checksum:016x}"),
        peak_rss_kib,
        peak_anon_kib: peak_rss_kib.saturating_sub(status_kib("RssFile:") + status_kib("RssShmem:")),
        idle_rss_kib,
    };
    let line = serde_json::to_string(&answer).map_err(|error| CliError::Failed(error.to_string()))?;
    output::print(&format!("{line}\n"))
}

/// An error unless malloc is that of `library`, or that of the C library if none is named.
fn check_malloc(library: Option<&Path>) -> Result<(), CliError> {
    let serves = malloc_file()?;
    let right = match library {
        Some(library) => match (library.canonicalize(), serves.canonicalize()) {
            (Ok(wanted), Ok(found)) => wanted == found,
            _ => false,
        },
        None => serves.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libc.")),
    };
    if right {
        return Ok(());
    }
    let wanted = library.map_or("the C library".into(), Path::to_string_lossy);
    Err(CliError::Failed(format!(
        "the preload has no effect: malloc is served by {}, expected {wanted}",
        serves.display()
    )))
}

/// The file that the dynamic symbol `malloc` comes from.
fn malloc_file() -> Result<PathBuf, CliError> {
    use std::os::unix::ffi::OsStrExt;
    let unknown = || CliError::Failed("cannot find out which library serves malloc".to_owned());
    // SAFETY: the name ends with a zero byte; the default handle needs nothing to be open.
    let malloc = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr()) };
    let mut info = libc::Dl_info {
        dli_fname: core::ptr::null(),
        dli_fbase: core::ptr::null_mut(),
        dli_sname: core::ptr::null(),
        dli_saddr: core::ptr::null_mut(),
    };
    // SAFETY: dladdr takes any address and fills `info` if it lies in a loaded object.
    if malloc.is_null() || unsafe { libc::dladdr(malloc, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return Err(unknown());
    }
    // SAFETY: dladdr succeeded, so this is the name of a loaded object, which stays loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Ok(std::ffi::OsStr::from_bytes(name.to_bytes()).into())
}

/// A figure of /proc/self/status in KiB, or 0 where that cannot be read.
fn status_kib(key: &str) -> u64 {
    kib_line(&std::fs::read_to_string("/proc/self/status").unwrap_or_default(), key).unwrap_or(0)
}

/// Resident memory now. The roll-up of the mappings is exact; other files count with a tolerance for each CPU.
fn resident_kib() -> u64 {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    kib_line(&rollup, "Rss:").unwrap_or_else(|| status_kib("VmRSS:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_gives_the_same_checksum_twice_and_its_own_name() {
        for (at, workload) in WORKLOADS.iter().enumerate() {
            assert!(WORKLOADS[..at].iter().all(|other| other.name != workload.name), "{}", workload.name);
            let sum = (workload.run)(Scale(0.002));
            assert_eq!((workload.run)(Scale(0.002)), sum, "{}", workload.name);
            assert_ne!((workload.run)(Scale(0.02)), sum, "{}: the scale changes nothing", workload.name);
        }
    }

    #[test]
    fn malloc_of_the_tests_is_the_c_librarys() {
        check_malloc(None).unwrap();
        let error = check_malloc(Some(Path::new("/lib/libother.so"))).unwrap_err().to_string();
        assert!(error.contains("no effect") && error.contains("libother"), "{error}");
    }

    #[test]
    fn resident_memory_is_known() {
        assert!(resident_kib() > 100 && status_kib("VmHWM:") > 100);
        assert_eq!(kib_line("A: 1\nRss:   12 kB\n", "Rss:"), Some(12));
    }
}
