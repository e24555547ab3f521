//! `ashlar tune`, `shrink`, `reap` and `validate` from outside.
#![cfg(target_os = "linux")]

mod common;
#[path = "common/running.rs"]
mod running;

use std::process::Command;

use common::{ashlar, refused, text};
use running::{Running, info, library, python, skipped, try_started};
use serde_json::Value;

/// Frees objects for ever, after it has made a heap with holes.
const BUSY: &str = "a=[bytes(100+i%900) for i in range(50000)]; b=a[::2]; del a\n\
                    import time\nprint('ready', flush=True)\nwhile True:\n \
                    c=[bytes(i%2000) for i in range(3000)]; del c; time.sleep(0.005)";

/// Starts Python with options of the allocator.
fn busy(options: &str, code: &str) -> Option<Running> {
    let mut command = Command::new("sh");
    let script = format!("ASHLAR_OPTIONS='{options}' LD_PRELOAD=$0 exec python3 -c \"$1\" 2>&1");
    command.args(["-c", &script]).arg(library()).arg(code);
    let running = try_started(command);
    if running.is_none() {
        skipped("no python3");
    }
    running
}

#[track_caller]
fn well(args: &[&str]) -> String {
    let out = ashlar(&[args, &["--timeout", "60"]].concat());
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()), "{args:?}");
    text(&out.stdout)
}

fn cache<'a>(json: &'a Value, name: &str) -> &'a Value {
    let caches = json["allocators"][0]["caches"].as_array().unwrap();
    caches.iter().find(|cache| cache["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_running_process_does_what_it_is_asked() {
    for options in ["", "percpu=lock", "reaper=off", "reaper=calls"] {
        let Some(child) = busy(options, BUSY) else { return };
        let pid = child.pid.as_str();
        let said = well(&["tune", pid, "cache.malloc-64.sheaf_capacity=12", "malloc-64.min_partial=3"]);
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("malloc-64.sheaf_capacity: 12 (was "), "{options}: {said}");
        assert!(lines[1].starts_with("malloc-64.min_partial: 3 (was ") && lines.len() == 2, "{options}: {said}");
        let tunables = cache(&info(pid), "malloc-64")["tunables"].clone();
        assert_eq!((&tunables["sheaf_capacity"], &tunables["min_partial"]), (&12.into(), &3.into()), "{options}");
        let said = well(&["tune", pid, "malloc-*.min_partial=1"]);
        assert!(said.contains(" caches, the first (was "), "{options}: {said}");
        assert_eq!(cache(&info(pid), "malloc-128")["tunables"]["min_partial"], 1, "{options}");
        assert!(well(&["shrink", pid, "malloc-128"]).starts_with("1 cache: slabs of "), "{options}");
        assert!(well(&["shrink", pid]).contains(" caches: slabs of "), "{options}");
        assert!(well(&["reap", pid]).ends_with(" KiB returned to the system\n"), "{options}");
        for args in [&["validate", pid][..], &["validate", pid, "malloc-128"]] {
            assert!(well(args).ends_with(" free objects checked: sound\n"), "{options}");
        }
    }
}

/// The letters of `ASHLAR_DEBUG` that change where nothing lies can be changed.
#[test]
fn a_debugged_cache_gets_other_checks() {
    // Allocations of 50 bytes: Python's own allocator has no such small objects, so `ctypes` asks.
    let code = "import ctypes, time\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\n\
                libc.free.argtypes = [ctypes.c_void_p]\nprint('ready', flush=True)\nwhile True:\n \
                c = [libc.malloc(50) for i in range(300)]\n for p in c: libc.free(p)\n time.sleep(0.005)";
    let environment = "' ASHLAR_FAILSLAB='1,100,0,0' ASHLAR_DEBUG='ZP,malloc-64";
    let Some(child) = busy(environment, code) else { return };
    let pid = child.pid.as_str();
    assert_eq!(well(&["tune", pid, "cache.malloc-64.debug=FZPA"]), "malloc-64.debug: FZPA (was ZP)\n");
    assert_eq!(well(&["tune", pid, "malloc-6*.debug=zp"]), "malloc-6*.debug: ZP (was FZPA)\n");
    refused(
        &["tune", pid, "--timeout", "60"],
        &[
            (&["malloc-64.debug=FZPU"], "refused: debug: Z, P and U are fixed when the cache is made"),
            (&["malloc-128.debug=F"], "refused: debug: expected a cache that is debugged"),
            (&["malloc-64.debug=Q"], "expected letters of F, Z, P, U, T and A, or -"),
            (&["malloc-64.debug="], "expected letters of F, Z, P, U, T and A, or -"),
        ],
    );
}

/// Its slow calls are allocations alone: what it frees fits on the sheaves.
#[test]
fn a_process_that_only_allocates_does_what_it_is_asked() {
    let code = "import time\nprint('ready', flush=True)\nkept=[None]*100000\nfor i in range(100000):\n \
                kept[i]=bytes(1100); time.sleep(0.001)";
    let thread = "import threading\nthreading.Thread(target=lambda: threading.Event().wait(), daemon=True).start()\n";
    for before in ["", thread] {
        for options in ["", "percpu=lock"] {
            let Some(child) = busy(options, &format!("{before}{code}")) else { return };
            let said = well(&["tune", &child.pid, "malloc-64.min_partial=3"]);
            assert!(said.starts_with("malloc-64.min_partial: 3 "), "{said}");
            assert!(well(&["reap", &child.pid]).ends_with(" KiB returned to the system\n"), "{options}");
            let json = info(&child.pid);
            assert_eq!(cache(&json, "malloc-1152")["events"]["free_slow"], 0, "{json}");
        }
    }
}

#[test]
fn the_background_thread_does_it_too() {
    let code = format!(
        "import threading\nthreading.Thread(target=lambda: threading.Event().wait(), daemon=True).start()\n{BUSY}"
    );
    let Some(child) = python(&code) else { return };
    assert_eq!(info(&child.pid)["allocators"][0]["thread"], true);
    assert!(well(&["reap", &child.pid]).ends_with(" KiB returned to the system\n"));
}

#[test]
fn the_child_of_a_fork_has_a_mailbox_of_its_own() {
    let code = "import os,time\nchild=os.fork()\nif child == 0:\n print('ready', os.getpid(), flush=True)\n \
                while True:\n  c=[bytes(i%2000) for i in range(3000)]; del c; time.sleep(0.005)\nelse:\n os.wait()";
    let Some(child) = python(code) else { return };
    let inner = child.said.split_whitespace().nth(1).unwrap().to_owned();
    assert!(well(&["tune", &inner, "malloc-64.min_partial=77"]).starts_with("malloc-64.min_partial: 77 "));
    let of = |pid: &str| cache(&info(pid), "malloc-64")["tunables"]["min_partial"].clone();
    assert_eq!((of(&inner) == 77, of(&child.pid) == 77), (true, false));
    Command::new("kill").arg(inner).status().expect("it runs");
}

#[test]
fn an_idle_or_stopped_process_is_left_as_it_is() {
    let Some(child) = python("print('ready', flush=True); import time; time.sleep(100)") else { return };
    let before = info(&child.pid)["allocators"].clone();
    let idle = |wanted: &str| {
        let out = ashlar(&["tune", &child.pid, "malloc-64.sheaf_capacity=5", "--timeout", "0.3"]);
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(1), String::new()), "{}", text(&out.stderr));
        assert!(text(&out.stderr).contains(wanted), "{}", text(&out.stderr));
        assert!(text(&out.stderr).contains("The request was withdrawn, and nothing was changed"));
    };
    idle("it is idle");
    child.signal(libc::SIGSTOP);
    while info(&child.pid)["state"] != "T" {
        std::thread::yield_now();
    }
    idle("it is stopped");
    child.signal(libc::SIGCONT);
    let caches =
        |json: &Value| json[0]["caches"].as_array().unwrap().iter().map(|c| c["tunables"].clone()).collect::<Vec<_>>();
    assert_eq!(caches(&before), caches(&info(&child.pid)["allocators"]));
}

#[test]
fn the_options_of_the_process_close_the_mailbox_or_have_it_say_what_was_done() {
    let Some(child) = busy("control=off", BUSY) else { return };
    for args in [&["reap", &child.pid][..], &["shrink", &child.pid], &["tune", &child.pid, "malloc-64.min_partial=1"]] {
        let out = ashlar(args);
        assert_eq!(out.status.code(), Some(2));
        assert!(text(&out.stderr).contains("it was started with control=off"), "{}", text(&out.stderr));
    }
    let Some(mut child) = busy("control=audit", BUSY) else { return };
    well(&["reap", &child.pid]);
    assert_eq!(child.line(), "ashlar: control: reap: done\n");
    well(&["tune", &child.pid, "malloc-64.min_partial=2"]);
    assert_eq!(child.line(), "ashlar: control: tune malloc-64.min_partial=2: done\n");
}

#[test]
fn bad_input_is_refused_at_once_also_by_an_idle_process() {
    let Some(child) = python("print('ready', flush=True); import time; time.sleep(100)") else { return };
    let pid = child.pid.as_str();
    let cases: &[(&[&str], &str)] = &[
        (&["tune", pid], "SETTING: required"),
        (&["tune", pid, "malloc-64"], "SETTING: malloc-64: expected cache.NAME.KEY=VALUE"),
        (&["tune", pid, "cache..min_partial=1"], "expected cache.NAME.KEY=VALUE"),
        (&["tune", pid, "malloc-64.colour=1"], "colour: unknown key, expected one of cpu_partial, "),
        (&["tune", pid, "malloc-64.min_partial=-1"], "min_partial: expected 0 to 1048576 (slabs)"),
        (&["tune", pid, "malloc-64.sheaf_capacity=255"], "sheaf_capacity: expected 0 to 254 (objects)"),
        (&["tune", pid, "no-such.min_partial=1"], "CACHE: no-such: PID "),
        (&["tune", pid, "no-such-*.min_partial=1"], "has no such cache"),
        (&["shrink", pid, "no-such"], "CACHE: no-such: PID "),
        (&["validate", pid, "no-such"], "CACHE: no-such: PID "),
        (&["reap", pid, "--timeout", "0"], "--timeout"),
        (&["reap", "999999999"], "no such process"),
        (&["reap", &std::process::id().to_string()], "not on ashlar"),
        (&["reap"], "PID: required"),
    ];
    refused(&[], cases);
}

#[test]
fn two_tools_at_once_get_their_own_answers() {
    let Some(child) = busy("", BUSY) else { return };
    let json = info(&child.pid);
    let names = json["allocators"][0]["caches"].as_array().unwrap().iter().map(|cache| cache["name"].as_str().unwrap());
    std::thread::scope(|scope| {
        for name in names.take(3) {
            let pid = child.pid.as_str();
            scope.spawn(move || {
                for value in 1..4 {
                    let said = well(&["tune", pid, &format!("{name}.min_partial={value}")]);
                    assert!(said.starts_with(&format!("{name}.min_partial: {value} (was ")), "{said}");
                }
            });
        }
    });
}
