//! Real programs, where they are installed: how each is run, and on what input.
//!
//! The inputs are made by `inputs` from a fixed seed, in a directory of this run. What a program
//! writes to standard output is compared between the systems. That the library is really in the
//! process is what the dynamic linker's log says of the warm-up, and for a server, which stays, its
//! mappings.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::experiments::programs::child::job::{Job, Setting};
use crate::experiments::programs::child::process::{self, Usage};
use crate::experiments::programs::child::{inputs, redis};
use crate::experiments::programs::plan::systems::System;
use ashlar_tool::program;

/// A program that may be installed.
pub(crate) struct Real {
    pub(crate) name: &'static str,
    /// Names of its executable; the first that is found is used.
    pub(crate) programs: &'static [&'static str],
    /// Where Debian has it.
    pub(crate) package: &'static str,
    pub(crate) what: &'static str,
    /// Writes the input and says how to run the program on it.
    job: fn(&Setting<'_>) -> Result<Job, String>,
}

/// All of them, in the order of the table.
#[rustfmt::skip]
pub(crate) static REAL: [Real; 11] = [
    Real { name: "gcc", programs: &["gcc"], package: "gcc", what: "gcc -O2 of a generated C file", job: gcc },
    Real { name: "python", programs: &["python3"], package: "python3", what: "objects, dictionaries, JSON; PYTHONMALLOC=malloc", job: python },
    Real { name: "perl", programs: &["perl"], package: "perl", what: "words counted in hashes, split, joined, sorted", job: perl },
    Real { name: "lua", programs: &["lua5.4", "lua", "lua5.3"], package: "lua5.4", what: "tables, strings, binary trees", job: lua },
    Real { name: "sqlite", programs: &["sqlite3"], package: "sqlite3", what: "a database in memory: inserts, index, queries", job: sqlite },
    Real { name: "git", programs: &["git"], package: "git", what: "git log -p of a generated repository", job: git },
    Real { name: "node", programs: &["node", "nodejs"], package: "nodejs", what: "objects, maps, JSON, buffers", job: node },
    Real { name: "sort", programs: &["sort"], package: "coreutils", what: "sort of a generated text", job: sort },
    Real { name: "xz", programs: &["xz"], package: "xz-utils", what: "xz -2 -T2 of a generated text", job: xz },
    Real { name: "zstd", programs: &["zstd"], package: "zstd", what: "zstd -9 -T2 of a generated text", job: zstd },
    Real { name: "redis", programs: &["redis-server"], package: "redis-server", what: "redis-server under redis-benchmark; its own CPU time", job: redis::job },
];

/// A program with its input, ready to run.
pub(crate) struct Prepared {
    real: &'static Real,
    dir: PathBuf,
    job: Job,
}

impl Real {
    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        REAL.iter().find(|real| real.name == name)
    }

    /// Its executable; the error says how to get it.
    pub(crate) fn find(&self) -> Result<PathBuf, String> {
        self.programs.iter().find_map(|name| program::find(name.as_ref()).ok()).ok_or_else(|| {
            format!("{}: no `{}` here: `apt-get install {}` gets it", self.name, self.programs[0], self.package)
        })
    }

    /// Makes the input in a directory of its own below `dir`.
    pub(crate) fn prepare(&'static self, dir: &Path, scale: f64) -> Result<Prepared, String> {
        let program = self.find()?;
        let dir = dir.join(self.name);
        let fail = |error: String| format!("{}: {error}", self.name);
        fs::create_dir_all(&dir).map_err(|error| fail(error.to_string()))?;
        let job = (self.job)(&Setting { dir: &dir, program: &program, scale }).map_err(fail)?;
        Ok(Prepared { real: self, dir, job })
    }
}

impl Prepared {
    pub(crate) fn name(&self) -> &'static str {
        self.real.name
    }

    /// Runs it once; returns what it took and the checksum of its output. `watched`: fails if the
    /// library is not mapped.
    pub(crate) fn run(&self, system: &System, watched: bool) -> Result<(Usage, String), String> {
        let (program, args, input, env) = match &self.job {
            Job::Redis(job) => return redis::run(job, &self.dir, system, watched),
            Job::Command { program, args, input, env } => (program, args, input, env),
        };
        let (out, err) = (self.dir.join("output"), self.dir.join("errors"));
        let io = |error: std::io::Error| error.to_string();
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.dir).env("LC_ALL", "C").envs(env.iter().map(|(key, value)| (key, value)));
        command.stdout(File::create(&out).map_err(io)?).stderr(File::create(&err).map_err(io)?);
        command.stdin(match input {
            Some(path) => Stdio::from(File::open(path).map_err(io)?),
            None => Stdio::null(),
        });
        system.prepare(&mut command);
        let log = self.dir.join("loaded");
        if watched {
            // A short program may be over before its mappings could be looked at; the dynamic
            // linker's log stays.
            command.env("LD_DEBUG", "files").env("LD_DEBUG_OUTPUT", log.join("by"));
            fs::create_dir_all(&log).map_err(io)?;
        }
        let start = Instant::now();
        let child = command.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let usage = process::wait(child, start)
            .map_err(|ended| process::reason(&fs::read_to_string(&err).unwrap_or_default(), ended))?;
        if watched {
            let loaded = was_loaded(&log, system);
            fs::remove_dir_all(&log).map_err(io)?;
            loaded?;
        }
        Ok((usage, checksum(&out)?))
    }
}

/// Fails unless one of the dynamic linker's logs in `dir` says that the library of `system` was
/// initialised.
fn was_loaded(dir: &Path, system: &System) -> Result<(), String> {
    let Some(library) = &system.preload else { return Ok(()) };
    let line = format!("calling init: {}", library.display());
    let logs = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut logs = logs.filter_map(|entry| fs::read(entry.ok()?.path()).ok());
    if logs.any(|log| String::from_utf8_lossy(&log).lines().any(|said| said.ends_with(&line))) {
        return Ok(());
    }
    Err(format!("the preload has no effect: {} was never mapped", library.display()))
}

/// Of a file, as hexadecimal digits (FNV-1a).
fn checksum(path: &Path) -> Result<String, String> {
    let io = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = File::open(path).map_err(io)?;
    let mut buffer = [0u8; 1 << 14];
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    loop {
        let length = file.read(&mut buffer).map_err(io)?;
        if length == 0 {
            return Ok(format!("{hash:016x}"));
        }
        hash = buffer[..length].iter().fold(hash, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
    }
}

fn command(setting: &Setting<'_>, args: &[&str], input: Option<PathBuf>) -> Job {
    let args = args.iter().map(OsString::from).collect();
    Job::Command { program: setting.program.to_owned(), args, input, env: Vec::new() }
}

/// A script with a number of rounds as its argument.
fn script(setting: &Setting<'_>, name: &str, text: &str, rounds: usize) -> Result<Job, String> {
    setting.write(name, text)?;
    Ok(command(setting, &[name, &setting.count(rounds).to_string()], None))
}

fn gcc(setting: &Setting<'_>) -> Result<Job, String> {
    setting.write("large.c", &inputs::c_file(setting.count(40)))?;
    Ok(command(setting, &["-O2", "-S", "-o", "-", "large.c"], None))
}

fn python(setting: &Setting<'_>) -> Result<Job, String> {
    // A `python3` may be a script that looks for the interpreter: only that one is of interest.
    let asked = Command::new(setting.program).args(["-c", "import sys; print(sys.executable)"]).output();
    let found = asked.map_err(|error| error.to_string())?.stdout;
    let program = PathBuf::from(String::from_utf8_lossy(&found).trim());
    let mut job = script(setting, "work.py", inputs::PYTHON, 10)?;
    if let Job::Command { program: of_job, env, .. } = &mut job {
        *of_job = program;
        env.extend([("PYTHONMALLOC", "malloc".into()), ("PYTHONHASHSEED", "0".into())]);
    }
    Ok(job)
}

fn perl(setting: &Setting<'_>) -> Result<Job, String> {
    script(setting, "work.pl", inputs::PERL, 12)
}

fn lua(setting: &Setting<'_>) -> Result<Job, String> {
    script(setting, "work.lua", inputs::LUA, 10)
}

fn node(setting: &Setting<'_>) -> Result<Job, String> {
    script(setting, "work.js", inputs::NODE, 8)
}

fn sqlite(setting: &Setting<'_>) -> Result<Job, String> {
    let input = setting.write("work.sql", &inputs::sql(setting.count(90_000)))?;
    Ok(command(setting, &["-batch", ":memory:"], Some(input)))
}

fn git(setting: &Setting<'_>) -> Result<Job, String> {
    // The configuration of the user and of the system would change what git does.
    let env: [(&'static str, OsString); 3] =
        [("GIT_CONFIG_GLOBAL", "/dev/null".into()), ("GIT_CONFIG_NOSYSTEM", "1".into()), ("GIT_PAGER", "cat".into())];
    let commits = setting.write("commits", &inputs::git_stream(setting.count(700)))?;
    for args in [["init", "--quiet", "--bare", "repository"], ["-C", "repository", "fast-import", "--quiet"]] {
        let input = File::open(&commits).map_err(|error| error.to_string())?;
        let mut command = Command::new(setting.program);
        command.args(args).current_dir(setting.dir).envs(env.clone()).stdin(input).stdout(Stdio::null());
        let status = command.status().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("git {}: {status}", args.join(" ")));
        }
    }
    let mut job = command(setting, &["-C", "repository", "log", "-p", "--stat", "main"], None);
    if let Job::Command { env: of_job, .. } = &mut job {
        of_job.extend(env);
    }
    Ok(job)
}

fn sort(setting: &Setting<'_>) -> Result<Job, String> {
    setting.write("text", &inputs::text(setting.count(400_000)))?;
    Ok(command(setting, &["--parallel=2", "text"], None))
}

fn xz(setting: &Setting<'_>) -> Result<Job, String> {
    setting.write("text", &inputs::text(setting.count(60_000)))?;
    Ok(command(setting, &["-2", "-T2", "--block-size=1MiB", "-c", "text"], None))
}

fn zstd(setting: &Setting<'_>) -> Result<Job, String> {
    setting.write("text", &inputs::text(setting.count(150_000)))?;
    Ok(command(setting, &["-q", "-9", "-T2", "-c", "text"], None))
}
