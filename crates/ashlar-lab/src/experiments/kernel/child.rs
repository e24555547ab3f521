//! The measured machine: the kernel is built by Cargo, and booted by QEMU.

use core::time::Duration;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::experiments::kernel::plan::{Boot, Clock, Plan, parse};
use crate::kit::error::LabError;
use crate::kit::limited;

const TARGET: &str = "x86_64-unknown-none";
const QEMU: &str = "qemu-system-x86_64";
/// What QEMU ends with if the kernel says that all is well; 35 if it found something wrong.
const WELL: i32 = 33;
const WRONG: i32 = 35;
/// No boot takes longer, beside the seconds that were asked for on each of six systems.
const LONGEST: Duration = Duration::from_secs(100);
const SYSTEMS: u32 = 6;

/// The output of a command, if it can be started.
fn said(command: &mut Command) -> Option<String> {
    let out = command.stdin(Stdio::null()).output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// The version of QEMU, as it prints it itself.
pub(crate) fn version() -> String {
    let text = said(Command::new(QEMU).arg("--version")).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

/// Says what is missing here, before anything is built.
fn check(manifest: &Path) -> Result<(), LabError> {
    if !manifest.is_file() {
        let place = manifest.display();
        return Err(LabError::Usage(format!("the kernel is built from a checkout of ashlar: expected {place}")));
    }
    if said(Command::new(QEMU).arg("--version")).is_none() {
        return Err(LabError::Usage(format!("{QEMU} is missing: apt-get install qemu-system-x86")));
    }
    let root = said(Command::new("rustc").args(["--print", "sysroot"]))
        .ok_or_else(|| LabError::Usage("rustc is missing: the kernel is built by Cargo".to_owned()))?;
    if !Path::new(&root).join("lib/rustlib").join(TARGET).is_dir() {
        return Err(LabError::Usage(format!(
            "the core library of {TARGET} is not installed: rustup target add {TARGET}"
        )));
    }
    Ok(())
}

/// Builds the kernel, and returns its file.
pub(crate) fn build() -> Result<PathBuf, LabError> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kernel/Cargo.toml");
    check(&manifest)?;
    let failed = |why: String| LabError::Failed(format!("cannot build the kernel: {why}"));
    let program = env::current_exe().map_err(|error| failed(error.to_string()))?;
    let target = program.parent().and_then(Path::parent).unwrap_or(Path::new("target")).join("kernel");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--locked", "--target", TARGET]);
    cargo.arg("--manifest-path").arg(&manifest).arg("--target-dir").arg(&target);
    // What a build of the lab for this machine sets is not for the kernel.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").stdin(Stdio::null());
    let status = cargo.status().map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        return Err(failed(status.to_string()));
    }
    Ok(target.join(TARGET).join("release/ashlar-kernel"))
}

/// QEMU with the machine of the plan.
fn machine(kernel: &Path, plan: &Plan, clock: Clock) -> Command {
    let memory = plan.memory();
    let mut qemu = Command::new(QEMU);
    qemu.args(["-machine", "q35", "-cpu", "max", "-nodefaults", "-display", "none", "-no-reboot"]);
    qemu.args(["-serial", "stdio", "-device", "isa-debug-exit,iobase=0xf4"]);
    qemu.arg("-m").arg(format!("{}M", memory.iter().sum::<u64>()));
    qemu.arg("-smp").arg(format!("{0},sockets={0}", plan.cpus));
    for (node, mib) in memory.iter().enumerate() {
        qemu.arg("-object").arg(format!("memory-backend-ram,size={mib}M,id=memory{node}"));
        qemu.arg("-numa").arg(format!("node,nodeid={node},memdev=memory{node}"));
    }
    for cpu in 0..plan.cpus {
        qemu.arg("-numa").arg(format!("cpu,node-id={},socket-id={cpu}", plan.node_of(cpu)));
    }
    match clock {
        Clock::Instructions => qemu.args(["-icount", "shift=0,sleep=off"]),
        Clock::Ticks => qemu.args(["-accel", "tcg,thread=multi"]),
    };
    qemu.arg("-kernel").arg(kernel).arg("-append").arg(plan.line(clock));
    qemu
}

/// Boots the kernel and waits for its end.
pub(crate) fn boot(kernel: &Path, plan: &Plan, clock: Clock) -> Result<Boot, String> {
    let longest = LONGEST + Duration::from_secs(1) * plan.seconds * SYSTEMS;
    let output = limited::run(machine(kernel, plan, clock), longest).map_err(|error| format!("{QEMU}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    let boot = parse(&text, plan, clock).map_err(|error| {
        let last = complaint.lines().chain(text.lines()).rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        format!("{error} ({}; the last line: {})", output.status, last.trim())
    })?;
    match output.status.code() {
        Some(WELL | WRONG) => Ok(boot),
        _ => Err(format!("{QEMU} ended: {}", output.status)),
    }
}
