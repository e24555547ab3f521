//! The originals: SLAB, SLUB and SLOB of Linux 6.1, measured by the kernel that holds them.
//!
//! `lab/linux/build.sh` builds three User-Mode Linux kernels with a benchmark of ours in each. Such
//! a kernel is a program: it boots, runs tests A, B and C in its last initcall, prints one line for
//! each measured pass and ends. It takes no requests, so a kernel is booted once
//! whenever the children of the lab are started anew, and serves as many rounds as they do. Loops,
//! clock, touches and warm-up are those of `kernel_tests`; what differs is said in
//! `lab/linux/README.md`: one CPU, and interrupt flags that are variables.

use core::time::Duration;
use std::path::PathBuf;
use std::process::Command;

use crate::kit::limited;

/// What a user runs when a kernel is not there.
const BUILD: &str = "lab/linux/build.sh";
/// Every line that the benchmark prints holds this.
const MARK: &str = "ashlar-bench: ";
/// Tests that the kernels run.
pub(crate) const TESTS: [&str; 3] = ["A", "B", "C"];
/// Largest size that is asked for; more of them do not fit into a small machine.
pub(crate) const MAX_SIZE: usize = 16 << 10;
/// Sizes that one boot takes, as `MOST_SIZES` of the benchmark.
const MOST_SIZES: usize = 32;
/// Most memory that a kernel is given, in MiB. It takes from the host what it touches.
const MOST_MEMORY: usize = 8 << 10;

/// What one boot is asked for.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) objects: usize,
    pub(crate) rounds: usize,
    /// At most [`MAX_SIZE`] each.
    pub(crate) sizes: Vec<usize>,
}

/// One measured pass over the three tests, in clock ticks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    pub(crate) size: usize,
    /// As [`TESTS`].
    pub(crate) ticks: [u64; 3],
}

/// What one boot printed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Boot {
    /// Release of the kernel, as `uname -r` says it.
    pub(crate) release: String,
    pub(crate) passes: Vec<Pass>,
}

/// The kernel file of a system: `linux` beside the directory of the tool, where the script puts it.
fn file(id: &str) -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.parent()?.join("linux").join(id))
}

/// Whether the kernel of the system `id` is there; the error names the command that builds it.
pub(crate) fn built(id: &str) -> Result<(), String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err("the kernels of the lab run on x86-64 Linux only".to_owned());
    }
    match file(id) {
        Some(path) if path.is_file() => Ok(()),
        path => {
            let path = path.map_or_else(String::new, |path| format!(": expected {}", path.display()));
            let name = id.strip_prefix("linux-").unwrap_or(id);
            Err(format!("this kernel is not built{path}; `{BUILD} {name}` builds it"))
        }
    }
}

/// The sizes of a run that the kernels take, and whether they run any of its tests.
pub(crate) fn part(tests: &[&str], sizes: &[usize], objects: usize) -> Result<Vec<usize>, String> {
    if !tests.iter().any(|test| TESTS.contains(test)) {
        return Err("runs the tests A, B and C: expected one of them".to_owned());
    }
    let sizes: Vec<usize> = sizes.iter().copied().filter(|&size| size <= MAX_SIZE).collect();
    if sizes.is_empty() || sizes.len() > MOST_SIZES {
        return Err(format!("takes 1 to {MOST_SIZES} sizes of at most {MAX_SIZE} bytes, not {}", sizes.len()));
    }
    let memory = memory(objects, &sizes);
    if memory > MOST_MEMORY {
        return Err(format!(
            "{objects} objects need {memory} MiB, at most {MOST_MEMORY} are given: use fewer --objects"
        ));
    }
    Ok(sizes)
}

/// MiB for the largest size, with half as much for what an allocator adds and for what it keeps of
/// other sizes.
fn memory(objects: usize, sizes: &[usize]) -> usize {
    let largest = sizes.iter().copied().max().unwrap_or(0).next_power_of_two().max(64);
    128 + (objects.saturating_mul(largest) >> 20).saturating_mul(3) / 2
}

/// No boot takes longer than this; the slowest seen took a tenth of it.
const LONGEST: Duration = Duration::from_secs(300);

/// Boots the kernel of a system and waits for its end.
pub(crate) fn boot(id: &str, job: &Job) -> Result<Boot, String> {
    let path = file(id).ok_or("cannot find the directory of the tool")?;
    let sizes: Vec<String> = job.sizes.iter().map(usize::to_string).collect();
    let mut command = Command::new(&path);
    command
        .arg(format!("mem={}M", memory(job.objects, &job.sizes)))
        // The console is the standard output, and nothing is read; a panic ends the process.
        .args(["con=null", "con0=null,fd:1", "panic=-1"])
        .arg(format!("ashlar_bench.objects={}", job.objects))
        .arg(format!("ashlar_bench.rounds={}", job.rounds))
        .arg(format!("ashlar_bench.sizes={}", sizes.join(",")));
    let output = limited::run(command, LONGEST).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse(&text, id, job).map_err(|error| {
        let complaint = String::from_utf8_lossy(&output.stderr);
        let last = complaint.lines().chain(text.lines()).rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        format!("{error} ({}; its last line: {})", output.status, last.trim())
    })
}

/// Reads what a kernel printed; it must be complete, and what was asked for.
fn parse(text: &str, id: &str, job: &Job) -> Result<Boot, String> {
    let mut boot = Boot { release: String::new(), passes: Vec::new() };
    let mut ended = false;
    for line in text.lines() {
        let Some((_, said)) = line.split_once(MARK) else {
            continue;
        };
        let said = said.trim();
        let strange = || format!("cannot read what the kernel printed: `{said}`");
        match said.split_once(' ').unwrap_or((said, "")) {
            ("begin", fields) => {
                let field =
                    |name: &str| fields.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
                let allocator = field("allocator").ok_or_else(strange)?;
                if id.strip_prefix("linux-") != Some(allocator) {
                    return Err(format!("the file holds a kernel with {allocator}"));
                }
                if field("objects") != Some(&job.objects.to_string()) {
                    return Err(strange());
                }
                field("release").ok_or_else(strange)?.clone_into(&mut boot.release);
            }
            ("pass", numbers) => {
                let numbers: Vec<u64> =
                    numbers.split(' ').map(str::parse).collect::<Result<_, _>>().map_err(|_| strange())?;
                let &[size, a, b, c] = numbers.as_slice() else {
                    return Err(strange());
                };
                boot.passes.push(Pass { size: size as usize, ticks: [a, b, c] });
            }
            ("failed:", why) => return Err(why.to_owned()),
            ("end", _) => ended = true,
            _ => return Err(strange()),
        }
    }
    if !ended || boot.release.is_empty() {
        return Err("the kernel ended without its figures".to_owned());
    }
    let complete = job.sizes.iter().all(|size| boot.passes.iter().filter(|p| p.size == *size).count() == job.rounds);
    if !complete || boot.passes.len() != job.rounds * job.sizes.len() {
        return Err(format!("the kernel printed {} passes, not the ones asked for", boot.passes.len()));
    }
    Ok(boot)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kernel printed for two sizes and two rounds, all of it.
    const RECORDED: &str = include_str!("../../tests/data/linux-slub.txt");

    fn job() -> Job {
        Job { objects: 10_000, rounds: 2, sizes: vec![64, 1024] }
    }

    #[test]
    fn a_recorded_boot_is_read() {
        let boot = parse(RECORDED, "linux-slub", &job()).expect("a whole boot");
        assert!(boot.release.starts_with("6.1"), "{}", boot.release);
        let sizes: Vec<usize> = boot.passes.iter().map(|pass| pass.size).collect();
        assert_eq!(sizes, [64, 1024, 64, 1024]);
        let first = RECORDED.lines().find_map(|line| line.split_once("pass 64 ")).expect("a line of figures").1;
        assert_eq!(boot.passes[0].ticks.map(|ticks| ticks.to_string()).join(" "), first.trim());
    }

    #[test]
    fn what_is_not_whole_or_not_asked_for_is_refused() {
        let refused = |text: &str, id: &str, job: &Job| parse(text, id, job).expect_err("refused");
        assert!(refused(RECORDED, "linux-slab", &job()).contains("a kernel with slub"));
        assert!(refused(RECORDED, "linux-slub", &Job { rounds: 3, ..job() }).contains("4 passes"));
        assert!(refused(RECORDED, "linux-slub", &Job { sizes: vec![64, 512], ..job() }).contains("4 passes"));
        assert!(refused(RECORDED, "linux-slub", &Job { objects: 5, ..job() }).contains("objects=10000"));
        let cut = RECORDED.split("ashlar-bench: end").next().unwrap_or_default();
        assert!(refused(cut, "linux-slub", &job()).contains("without its figures"));
        assert!(refused("Kernel panic", "linux-slub", &job()).contains("without its figures"));
        let failed = RECORDED.replace("ashlar-bench: pass 1024", "ashlar-bench: failed: no memory");
        assert!(refused(&failed, "linux-slub", &job()).contains("no memory"));
        assert!(refused(&RECORDED.replace("pass 64 ", "pass x "), "linux-slub", &job()).contains("`pass x"));
    }

    #[test]
    fn a_run_that_the_kernels_cannot_serve_is_refused() {
        assert_eq!(part(&["A", "B", "C", "D", "E", "F"], &[8, 16 << 10, 32 << 10], 10_000), Ok(vec![8, 16 << 10]));
        assert!(part(&["D", "F"], &[8], 10).unwrap_err().contains("A, B and C"));
        assert!(part(&["C"], &[32 << 10], 10).unwrap_err().contains("16384"));
        assert!(part(&["C"], &[16 << 10], 10_000_000).unwrap_err().contains("--objects"));
    }
}
