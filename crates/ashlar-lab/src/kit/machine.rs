//! Facts about the machine and the build, for the head of a run.

use core::ffi::CStr;
use core::fmt;
use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

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

/// What tells one processor from another of the same name: clouds call several generations
/// `AMD EPYC`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Processor {
    pub(crate) vendor: String,
    pub(crate) name: String,
    /// Family, model and stepping as the processor reports them; empty where it has none.
    pub(crate) family: String,
    pub(crate) model: String,
    pub(crate) stepping: String,
    pub(crate) tsc_mhz: Option<f64>,
    /// Sizes of the caches of the first CPU, as the kernel prints them, by level and kind.
    pub(crate) caches: BTreeMap<String, String>,
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        if !self.family.is_empty() {
            write!(f, " (family {}, model {}, stepping {})", self.family, self.model, self.stepping)?;
        }
        Ok(())
    }
}

/// The processor of this machine.
pub(crate) fn processor() -> Processor {
    let info = read("/proc/cpuinfo").unwrap_or_default();
    let caches = (0..8).filter_map(|index| {
        let of = |what: &str| read(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{what}"));
        Some((format!("L{} {}", of("level")?, of("type")?.to_lowercase()), of("size")?))
    });
    Processor { name: cpu_model(), tsc_mhz: tsc_mhz(), caches: caches.collect(), ..told(&info) }
}

/// What `/proc/cpuinfo` tells of the first processor.
fn told(info: &str) -> Processor {
    let of = |key: &str| {
        let line = info.lines().find(|line| line.split(':').next().is_some_and(|name| name.trim() == key));
        line.and_then(|line| line.split_once(':')).map_or_else(String::new, |(_, value)| value.trim().to_owned())
    };
    Processor {
        vendor: of("vendor_id"),
        family: of("cpu family"),
        model: of("model"),
        stepping: of("stepping"),
        ..Processor::default()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_told_by_its_family_and_model() {
        let info = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n\
                    model name\t: AMD EPYC\nstepping\t: 1\n\nprocessor\t: 1\nmodel\t\t: 18\n";
        let found = Processor { name: "AMD EPYC".to_owned(), ..told(info) };
        assert_eq!(found.to_string(), "AMD EPYC (family 25, model 17, stepping 1)");
        assert_eq!(found.vendor, "AuthenticAMD");
        // Other architectures tell less.
        let arm = Processor { name: "unknown".to_owned(), ..told("processor\t: 0\nBogoMIPS\t: 50.00\n") };
        assert_eq!(arm.to_string(), "unknown");
    }
}
