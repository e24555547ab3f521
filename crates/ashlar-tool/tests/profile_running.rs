//! `ashlar pins` and `ashlar profile` of processes that run.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;
#[path = "common/running.rs"]
mod running;

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use common::{ashlar, command, refused, scratch, text};
use running::{Running, build, library, skipped, started, try_started};
use serde_json::Value;

/// Starts the program whose long-lived objects each hold a slab.
fn pinned(options: &str) -> Running {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let program = BUILT.get_or_init(|| build("pinned.c", &["-O1", "-g"]));
    // The options of a program that is started are taken out of its environment.
    let mut run = command("env");
    run.arg(format!("ASHLAR_OPTIONS={options}")).arg(program).env("LD_PRELOAD", library());
    started(run)
}

#[test]
fn pages_are_pinned_by_the_site_whose_objects_stayed() {
    for (rate, least) in [("1", 0.9), ("16K", 0.4)] {
        let process = pinned(&format!("profile={rate}"));
        let out = ashlar(&["pins", &process.pid, "--json", "--all"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        let pins: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let cache = &pins["caches"][0];
        assert_eq!((&cache["name"], &cache["active"]), (&"malloc-208".into(), &5000.into()), "{pins}");
        let bytes = pins["pinned_bytes"].as_f64().unwrap();
        assert!(bytes > 10e6 && cache["pinned_bytes"].as_f64().unwrap() > bytes * 0.98, "{pins}");
        assert!(cache["sparse"].as_u64().unwrap() > 4000, "{cache}");
        let sites = pins["sites"].as_array().unwrap();
        let held = |site: &Value| site["pinned_bytes"].as_f64().unwrap();
        let (all, keeper): (f64, f64) = sites.iter().fold((0.0, 0.0), |(all, keeper), site| {
            let is_keeper = site["functions"][0] == "site_keeps";
            (all + held(site), keeper + if is_keeper { held(site) } else { 0.0 })
        });
        println!("{rate}: the site holds {:.1} % of the pinned bytes", keeper * 100.0 / bytes);
        assert!(keeper > all * 0.9 && keeper > bytes * least, "{rate}: {keeper} of {all} by samples, of {bytes}");
    }
}

#[test]
fn pins_are_told_apart_from_what_is_not_due() {
    let process = pinned("");
    let out = ashlar(&["pins", &process.pid]);
    let table = text(&out.stdout);
    for part in
        ["pinned:  ", "not due yet: ", " free pages; ", "empty slabs that caches keep", "No heap profile was started"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
    let one = text(&ashlar(&["pins", &process.pid, "malloc-640"]).stdout);
    assert!(one.contains("malloc-640") && !one.contains("malloc-208"), "{one}");
    refused(
        &["pins"],
        &[
            (&[], "PID"),
            (&[&process.pid, "no-such-cache"], "CACHE: no-such-cache: PID"),
            (&["0"], "PID"),
            (&["999999999"], "no such process"),
            (&["1"], "PID: 1"),
        ],
    );
    refused(
        &["profile"],
        &[(&[&process.pid], "no heap profile was started there"), (&["999999999"], "no such process")],
    );
}

#[test]
fn the_profile_of_a_running_process_is_read_from_outside() {
    let process = pinned("profile=1");
    process.signal(libc::SIGSTOP);
    let out = ashlar(&["profile", &process.pid, "--folded"]);
    process.signal(libc::SIGCONT);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let stacks = text(&out.stdout);
    let bytes = |site: &str| {
        stacks
            .lines()
            .filter(|line| line.contains(site))
            .map(|line| line.rsplit_once(' ').unwrap().1)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (bytes(";site_keeps ")[..] == ["1000000"], bytes(";site_fills ")[..] == ["12800000"]),
        (true, true),
        "{stacks}"
    );
    assert!(bytes(";site_passes ").is_empty(), "{stacks}");
    let table = text(&ashlar(&["profile", &process.pid]).stdout);
    assert!(table.starts_with(&format!("heap profile of PID {}: every object, ", process.pid)), "{table}");
}

/// Keeps some of what it allocates, for ever.
const GROWS: &str = "import time\nkept=[]\ndef keeps(n):\n kept.append(bytes(n))\nprint('ready', flush=True)\nwhile True:\n \
                     keeps(3000)\n c=[bytes(i%2000) for i in range(3000)]; del c; time.sleep(0.002)";
const THREAD: &str =
    "import threading\nthreading.Thread(target=lambda: threading.Event().wait(), daemon=True).start()\n";

/// Starts Python with options of the allocator; `None` where there is no Python.
fn grows(options: &str, code: &str) -> Option<Running> {
    let mut run = command("env");
    run.arg(format!("ASHLAR_OPTIONS={options}")).args(["python3", "-c", code]).env("LD_PRELOAD", library());
    let running = try_started(run);
    if running.is_none() {
        skipped("no python3");
    }
    running
}

#[test]
fn a_process_that_was_not_prepared_profiles_itself_when_it_is_asked() {
    let code = format!("{THREAD}{GROWS}");
    let Some(process) = grows("", &code) else { return };
    let pid = process.pid.as_str();
    let none = "no heap profile was started there";
    refused(&["profile", pid], &[(&[], none), (&["--stop"], none)]);
    let file = scratch("asked.pb.gz");
    let profile = ["profile", pid, "--seconds", "1", "--rate", "16K", "--timeout", "60"];
    let out = ashlar(&[&profile[..], &["-o", file.to_str().unwrap(), "--top", "--by", "cache"]].concat());
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
    let table = text(&out.stdout);
    assert!(table.starts_with(&format!("heap profile of PID {pid}: a sample each 16.0 KiB, ")), "{table}");
    // The objects of 3000 bytes with their heads.
    assert!(table.contains("  malloc-3072"), "{table}");
    assert!(fs::read(&file).expect("a file").starts_with(b"\x1f\x8b"), "gzip");
    // It was stopped, and what was sampled stays.
    let table = text(&ashlar(&["profile", pid]).stdout);
    assert!(table.contains(": stopped, "), "{table}");

    let well = |args: &[&str]| {
        let out = ashlar(&[&["profile", pid, "--timeout", "60"], args].concat());
        assert_eq!((out.status.code(), text(&out.stderr), text(&out.stdout)), (Some(0), String::new(), String::new()));
    };
    well(&["--start", "--rate", "64K"]);
    refused(&["profile", pid, "--timeout", "60"], &[(&["--start"], "refused: a profile runs already")]);
    assert!(text(&ashlar(&["profile", pid]).stdout).contains(": a sample each 64.0 KiB, "));
    well(&["--stop"]);
    refused(&["profile", pid], &[(&["--stop"], "its heap profile was stopped before")]);
}

#[test]
fn a_process_with_one_thread_profiles_itself_too() {
    // Without a fast path for malloc, it must have been prepared.
    let Some(process) = grows("quarantine=20", GROWS) else { return };
    let start = ["--start", "--timeout", "60"];
    refused(&["profile", &process.pid], &[(&start, "start it with ASHLAR_OPTIONS=profile=ready")]);
    drop(process);
    for options in
        ["", "percpu=lock", "reaper=off", "profile=ready", "profile=ready,percpu=lock", "profile=ready,quarantine=20"]
    {
        let Some(process) = grows(options, GROWS) else { return };
        let out = ashlar(&["profile", &process.pid, "--seconds", "0.5", "--rate", "16K", "--timeout", "60"]);
        assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()), "{options}");
        let table = text(&out.stdout);
        assert!(table.contains("a sample each 16.0 KiB") && table.contains("live "), "{options}: {table}");
    }
}

/// The C library calls `malloc` under its own locks, so the unwinder is not loaded there.
#[test]
fn a_process_in_which_only_the_c_library_allocates_is_left_as_it_is() {
    let program = build("strings.c", &["-O1"]);
    let mut run = command(program.to_str().expect("a path in UTF-8"));
    run.env("LD_PRELOAD", library());
    let mut process = started(run);
    let pid = process.pid.clone();
    let out = ashlar(&["profile", &pid, "--start", "--timeout", "2"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("made no call of malloc that could load"), "{}", text(&out.stderr));
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    assert!(!maps.contains("libgcc_s"), "{maps}");
    // It was asked by a line to allocate itself, and the next request is served.
    process.ask("own");
    let out = ashlar(&["profile", &pid, "--seconds", "0.3", "--rate", "1", "--timeout", "60", "--folded"]);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
    assert!(text(&out.stdout).contains("strdup "), "{}", text(&out.stdout));
}

#[test]
fn a_process_that_is_idle_or_closed_is_told() {
    let process = pinned("profile=ready");
    let out = ashlar(&["profile", &process.pid, "--start", "--timeout", "0.3"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("it is idle"), "{}", text(&out.stderr));
    let closed = pinned("control=off");
    refused(
        &["profile", &closed.pid],
        &[
            (&["--start"], "control=off"),
            (&["--start", "--stop"], "--stop"),
            (&["--start", "--rate", "0"], "--rate: expected 1 to 16M"),
            (&["--start", "--rate", "17M"], "--rate: expected 1 to 16M"),
            (&["--seconds", "0"], "--seconds"),
        ],
    );
    refused(&["profile"], &[(&["no-such-file", "--start"], "PID: expected the number of a process")]);
}

/// The example of `docs/observe.md`, whose sources lie in `docs/leak`.
#[test]
fn the_worked_example_finds_the_leak_in_five_commands() {
    let folder = scratch("leak");
    fs::create_dir_all(&folder).expect("a folder");
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/leak");
    for name in ["counter.c", "service.py"] {
        fs::copy(format!("{sources}/{name}"), folder.join(name)).expect("a copy");
    }
    let script = "cc -g -O1 -shared -fPIC $(python3-config --includes) -o counter.so counter.c";
    if !command("sh").args(["-c", script]).current_dir(&folder).output().is_ok_and(|out| out.status.success()) {
        return skipped("no headers of Python");
    }
    let mut service = command("python3");
    service.arg("service.py").current_dir(&folder).env("LD_PRELOAD", library());
    let service = started(service);
    let pid = service.pid.as_str();
    let well = |args: &[&str]| {
        let out = ashlar(args);
        assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()), "{args:?}");
        text(&out.stdout)
    };
    assert!(well(&["ps"]).contains(pid));
    let (before, after) = (folder.join("before"), folder.join("after"));
    let (before, after) = (before.to_str().unwrap(), after.to_str().unwrap());
    well(&["info", pid, "--save", before]);
    std::thread::sleep(core::time::Duration::from_secs(2));
    well(&["info", pid, "--save", after]);
    let diff = well(&["diff", before, after]);
    let first = diff.lines().skip_while(|line| !line.starts_with("# name")).nth(1).expect("a row");
    assert!(first.starts_with("malloc-1152 "), "{diff}");
    let profile =
        well(&["profile", pid, "--seconds", "2", "--rate", "16K", "--by", "site", "--limit", "1", "--timeout", "60"]);
    assert!(profile.contains("objects of malloc-1152") && profile.contains("    count at "), "{profile}");
    assert!(profile.contains("counter.c:"), "{profile}");
}
