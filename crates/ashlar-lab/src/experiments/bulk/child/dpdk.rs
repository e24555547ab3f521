//! DPDK's mempool, measured by DPDK's own test program.
//!
//! `dpdk-test` runs `mempool_perf_autotest`: 720 cells of five seconds, an hour. `lab/dpdk` builds
//! a library that, preloaded, tells it a clock of a lower frequency, so that a cell takes 25 ms; it
//! prints that frequency, and so the rates can be turned into cycles. The cells that count are
//! those with the cache for each core (512 objects) on one core, and equal bulks for get and put.
//! Each is measured twice, once with the bulk as a constant of the compiler: the better one counts.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::experiments::bulk::plan::{KEPT, KEPT_BULKS, KEPT_SIZE, keep_name};
use crate::kit::measure::{UNIT, allowed_cpus};
use crate::kit::once::record;
use crate::kit::record::Record;

/// Its name among the systems.
pub(crate) const ID: &str = "dpdk";
/// The test program, as Debian names it.
const PROGRAM: &str = "dpdk-test";
/// Times that the test is run.
const RUNS: usize = 3;

/// What is needed to run the test.
#[derive(Debug)]
pub(crate) struct Program {
    test: PathBuf,
    short_time: PathBuf,
}

/// Finds the test program and the library; the error says how to get what is missing.
pub(crate) fn find() -> Result<Program, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("its rates are turned into cycles of x86-64's time-stamp counter alone".to_owned());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let test = env::split_paths(&path).map(|dir| dir.join(PROGRAM)).find(|file| file.is_file());
    let test = test.ok_or_else(|| format!("no {PROGRAM} in PATH: `apt-get install dpdk-dev` brings it"))?;
    let tool = env::current_exe().map_err(|error| error.to_string())?;
    let short_time = tool
        .ancestors()
        .skip(1)
        .take(3)
        .map(|dir| dir.join("dpdk/libshort_time.so"))
        .find(|file| file.is_file())
        .ok_or("no libshort_time.so beside the tool: `lab/dpdk/build.sh` builds it")?;
    Ok(Program { test, short_time })
}

/// A started test, ended with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the test, [`RUNS`] times until it has printed the cells that count.
pub(crate) fn run(program: &Program) -> Result<Vec<Record>, String> {
    let mut samples: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
    for _ in 0..RUNS {
        let run = once(&program.test, &program.short_time).map_err(|error| format!("{ID}: {error}"))?;
        for (cell, cycles) in run {
            samples.entry(cell).or_default().push(cycles);
        }
    }
    Ok(samples
        .into_iter()
        .map(|((keep, bulk), samples)| Record {
            size: KEPT_SIZE,
            bulk: Some(bulk),
            ..record(&keep_name(keep), ID, UNIT, &samples)
        })
        .collect())
}

/// Cycles for one object, by the number kept and the bulk.
type Cells = BTreeMap<(usize, usize), f64>;

fn once(test: &Path, short_time: &Path) -> Result<Cells, String> {
    // The CPU on which our children run.
    let cpu = allowed_cpus().last().copied().unwrap_or(0).to_string();
    let prefix = format!("ashlar-{}", std::process::id());
    let child = Command::new(test)
        .args([
            "--no-huge",
            "--no-pci",
            "--no-telemetry",
            "--no-shconf",
            "-m",
            "256",
            "-l",
            &cpu,
            "--file-prefix",
            &prefix,
        ])
        .env("DPDK_TEST", "mempool_perf_autotest")
        .env("LD_PRELOAD", short_time)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = Running(child.map_err(|error| format!("cannot start {}: {error}", test.display()))?);
    let out = child.0.stdout.take().ok_or("the test has no output")?;
    read(BufReader::new(out).lines().map_while(Result::ok))
}

/// Reads lines of the test until all cells that count were there.
fn read(lines: impl Iterator<Item = String>) -> Result<Cells, String> {
    let mut hz = None;
    let mut cells = Cells::new();
    // Each cell twice, see above.
    let mut left = 2 * KEPT.len() * KEPT_BULKS.len();
    let mut last = String::new();
    for line in lines {
        let fields: BTreeMap<&str, u64> = line
            .split_whitespace()
            .filter_map(|word| word.split_once('='))
            .filter_map(|(k, v)| Some((k, v.parse().ok()?)))
            .collect();
        if let Some(&found) = fields.get("hz") {
            hz = Some(found as f64);
        }
        let at = |key: &str| fields.get(key).copied();
        if let (Some(512), Some(1), Some(rate), Some(hz)) = (at("cache"), at("cores"), at("rate_persec"), hz)
            && let (Some(get), Some(put), Some(keep)) = (at("n_get_bulk"), at("n_put_bulk"), at("n_keep"))
            && get == put
            && rate > 0
        {
            // A rate is for a second, of which the test knows only as many cycles as it was told.
            let cycles = hz / rate as f64;
            let cell = cells.entry((keep as usize, get as usize)).or_insert(cycles);
            *cell = cell.min(cycles);
            left -= 1;
            if left == 0 {
                return Ok(cells);
            }
        }
        last = line;
    }
    Err(format!("the test ended early; its last line was `{}`", last.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(cache: u32, bulks: [usize; 2], keep: usize, constant: u32, rate: u64) -> String {
        let [get, put] = bulks;
        format!(
            "mempool_autotest cache={cache} cores=1 n_get_bulk={get} n_put_bulk={put} n_keep={keep} constant_n={constant} \
             rate_persec={rate}"
        )
    }

    #[test]
    fn only_the_cached_cells_of_equal_bulks_count_and_the_better_of_two() {
        let mut lines = vec!["short_time hz=13000000".to_owned(), line(0, [1, 1], 32, 0, 500_000)];
        for keep in KEPT {
            for bulk in KEPT_BULKS {
                lines.push(line(512, [bulk, bulk], keep, 0, 1_000_000));
                lines.push(line(512, [bulk, bulk], keep, 1, 1_300_000));
                lines.push(line(512, [bulk, bulk + 1], keep, 0, 99_000_000));
            }
        }
        let cells = read(lines.clone().into_iter()).unwrap();
        assert_eq!(cells.len(), 12);
        assert!(cells.values().all(|&cycles| (cycles - 10.0).abs() < 1e-9), "{cells:?}");
        let error = read(lines.into_iter().take(9)).unwrap_err();
        assert!(error.contains("ended early") && error.contains("mempool_autotest"), "{error}");
    }
}
