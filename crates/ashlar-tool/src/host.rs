//! The machine, for the record of a run.

use std::fs;

use serde::Serialize;

/// What a figure depends on besides the program and its malloc.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Host {
    cpu_model: String,
    /// Those that this process may use.
    cpus: usize,
    arch: &'static str,
    kernel: String,
    c_library: String,
    /// The setting of transparent huge pages.
    thp: String,
    /// The one of 1, 5 and 15 minutes, before the first run.
    load: String,
    ashlar_version: &'static str,
}

/// Describes this machine.
pub(crate) fn describe() -> Host {
    Host {
        cpu_model: cpu_model(),
        cpus: std::thread::available_parallelism().map_or(1, core::num::NonZero::get),
        arch: std::env::consts::ARCH,
        kernel: read("/proc/sys/kernel/osrelease"),
        c_library: c_library(),
        thp: thp(),
        load: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
        ashlar_version: env!("CARGO_PKG_VERSION"),
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn cpu_model() -> String {
    let text = read("/proc/cpuinfo");
    let line = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    line.map_or_else(|| "unknown".to_owned(), |(_, model)| model.trim().to_owned())
}

fn thp() -> String {
    let text = read("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or_else(|| "unknown".to_owned(), |(setting, _)| setting.to_owned())
}

/// Returns name and version of the C library that this process runs with.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "a call of the C library")]
pub(crate) fn c_library() -> String {
    // SAFETY: takes nothing and returns a constant string that ends with a zero byte.
    let version = unsafe { core::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", version.to_string_lossy())
}

/// Returns the name of the C library; this one cannot be asked for its version.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn c_library() -> String {
    "the C library".to_owned()
}
