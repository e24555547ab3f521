//! Facts about the machine and the build, for the head of a run.

use core::ffi::CStr;
use std::fs;

/// Profile of the tool.
pub(crate) fn own_build() -> String {
    let asserts = if cfg!(debug_assertions) { "debug" } else { "release" };
    format!("{asserts}, opt-level {}", env!("ASHLAR_OPT_LEVEL"))
}

/// Name of the processor.
pub(crate) fn cpu_model() -> String {
    let info = read("/proc/cpuinfo").unwrap_or_default();
    info.lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or_else(unknown, |(_, model)| model.trim().to_owned())
}

/// Release of the running kernel.
pub(crate) fn kernel() -> String {
    read("/proc/sys/kernel/osrelease").unwrap_or_else(unknown)
}

/// Setting of transparent huge pages.
pub(crate) fn thp() -> String {
    let text = read("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or_else(unknown, |(setting, _)| setting.to_owned())
}

/// Version of the C library that this process runs with.
#[cfg(target_env = "gnu")]
pub(crate) fn glibc() -> String {
    // SAFETY: takes nothing and returns a constant string that ends with a zero byte.
    unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy().into_owned()
}

/// Version of the C library that this process runs with.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn glibc() -> String {
    "none".to_owned()
}

/// Frequency of the time-stamp counter against the monotonic clock.
#[cfg(target_arch = "x86_64")]
pub(crate) fn tsc_mhz() -> Option<f64> {
    use crate::kit::measure::ticks;
    use core::time::Duration;
    use std::time::Instant;
    let (clock, start) = (Instant::now(), ticks());
    std::thread::sleep(Duration::from_millis(50));
    let (elapsed, cycles) = (clock.elapsed(), ticks() - start);
    Some((cycles as f64 / elapsed.as_secs_f64() / 1e5).round() / 10.0)
}

/// Absent where there is no time-stamp counter.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn tsc_mhz() -> Option<f64> {
    None
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn unknown() -> String {
    "unknown".to_owned()
}
