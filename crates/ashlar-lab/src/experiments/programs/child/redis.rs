//! redis: the server is measured, the client that loads it is not.
//!
//! Debian's server links jemalloc, which would be "glibc" then. So its base is made as the others
//! are: the C library is preloaded, and its malloc comes first.

use core::time::Duration;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::experiments::programs::child::job::{Job, Redis, Setting};
use crate::experiments::programs::child::process::{self, Usage};
use crate::experiments::programs::plan::systems::System;
use ashlar_tool::program;

/// How long the server may take to answer at first.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn job(setting: &Setting<'_>) -> Result<Job, String> {
    let find = |name: &str| {
        program::find(name.as_ref()).map_err(|_| format!("no `{name}` here: `apt-get install redis-tools` gets it"))
    };
    Ok(Job::Redis(Redis {
        server: setting.program.to_owned(),
        benchmark: find("redis-benchmark")?,
        cli: find("redis-cli")?,
        requests: setting.count(70_000),
    }))
}

/// Starts the server, loads it, and asks it to end. What the server took, and what it holds at the
/// end.
pub(crate) fn run(job: &Redis, dir: &Path, system: &System, watched: bool) -> Result<(Usage, String), String> {
    let socket = dir.join("socket");
    let log = dir.join("output");
    let mut command = Command::new(&job.server);
    command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]).arg(&socket);
    command.current_dir(dir).stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(File::create(&log).map_err(|error| error.to_string())?);
    system.prepare(&mut command);
    if system.preload.is_none() {
        command.env("LD_PRELOAD", "libc.so.6");
    }
    let start = Instant::now();
    let mut server = command.spawn().map_err(|error| format!("cannot start {}: {error}", job.server.display()))?;
    let outcome = if watched { process::watch(&server, system) } else { Ok(()) }.and_then(|()| load(job, &socket));
    if outcome.is_err() {
        // It would wait for ever. A server that has ended already is no other error.
        let _ = server.kill();
    }
    let ended = process::wait(server, start);
    let _ = fs::remove_file(&socket);
    match (outcome, ended) {
        (Ok((elapsed, held)), Ok(usage)) => Ok((Usage { elapsed, ..usage }, held)),
        (Err(error), _) | (_, Err(error)) => Err(process::reason(&fs::read_to_string(&log).unwrap_or_default(), error)),
    }
}

/// The time that the client took, and the sizes of what the server holds.
fn load(job: &Redis, socket: &Path) -> Result<(Duration, String), String> {
    let start = Instant::now();
    let ask = |args: &[&str]| client(&job.cli, socket, args);
    while ask(&["PING"]).is_err() {
        if start.elapsed() > PATIENCE {
            return Err("the server does not answer".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let requests = job.requests.to_string();
    let start = Instant::now();
    let each = ["-q", "-n", &requests, "-P", "16", "-c", "8"];
    for command in [
        &["LPUSH", "list", "one", "two", "three", "four", "five"][..],
        &["SET", "key:__rand_int__", "a value of some forty bytes: 0123456789"],
        &["APPEND", "text", "more text for a string"],
        &["LRANGE", "list", "0", "20"],
    ] {
        // Keys in order, so that what the server holds is the same each time.
        let args: Vec<&str> = each.iter().copied().chain(["-r", &requests]).chain(command.iter().copied()).collect();
        client(&job.benchmark, socket, &args)?;
    }
    let elapsed = start.elapsed();
    let held = format!("{} {}", ask(&["LLEN", "list"])?.trim(), ask(&["STRLEN", "text"])?.trim());
    // The server goes without an answer.
    let _ = ask(&["SHUTDOWN", "NOSAVE"]);
    Ok((elapsed, held))
}

fn client(program: &Path, socket: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.arg("-s").arg(socket).args(args).env_remove("LD_PRELOAD");
    process::run(command).map(|(_, out)| out)
}
