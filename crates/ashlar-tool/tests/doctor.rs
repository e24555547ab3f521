//! `ashlar doctor` from outside.
#![cfg(target_os = "linux")]

mod common;
#[path = "common/running.rs"]
mod running;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use common::{ASHLAR, ashlar, command, refused, scratch, text};
use running::{Running, library, skipped, try_started};
use serde_json::Value;

/// Returns the exit code and the findings of a run.
fn findings(command: &mut Command) -> (Option<i32>, Vec<Value>) {
    let out = command.output().expect("the tool runs");
    let json: Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&out.stderr)));
    let findings = json["findings"].as_array().expect("a list").clone();
    let problems = findings.iter().filter(|finding| finding["state"] == "problem").count();
    assert_eq!(json["problems"], problems);
    assert_eq!(out.status.code(), Some(i32::from(problems > 0)), "{json}");
    (out.status.code(), findings)
}

fn doctor(args: &[&str]) -> (Option<i32>, Vec<Value>) {
    findings(command(ASHLAR).args(["doctor", "--json"]).args(args))
}

/// Returns what was found under a name: its state, and what was said.
fn of(findings: &[Value], name: &str) -> (String, String) {
    let finding = findings.iter().find(|finding| finding["name"] == name);
    let finding = finding.unwrap_or_else(|| panic!("nothing about {name} in {findings:?}"));
    (finding["state"].as_str().unwrap().to_owned(), format!("{} {}", finding["value"], finding["advice"]))
}

/// Compiles a program; `None` if the machine cannot.
fn compiled(name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let (file, program) = (scratch(&format!("{name}.c")), scratch(name));
    fs::write(&file, source).expect("a file");
    let out = Command::new("cc").arg("-o").arg(&program).arg(file).args(flags).output().expect("cc runs");
    if !out.status.success() {
        skipped(&text(&out.stderr));
        return None;
    }
    Some(program)
}

#[test]
fn the_machine_is_looked_at() {
    let (_, found) = doctor(&[]);
    for name in [
        "mode",
        "kernel",
        "C library",
        "rseq",
        "membarrier",
        "huge pages",
        "overcommit",
        "cgroup",
        "seccomp",
        "NUMA",
        "ptrace",
    ] {
        of(&found, name);
    }
    let shown = text(&ashlar(&["doctor"]).stdout);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.contains("\nmode ") && shown.trim_end().ends_with('.'), "{shown}");
}

#[test]
fn what_changes_the_mode_is_named() {
    let with = |name: &str, value: &str| findings(command(ASHLAR).args(["doctor", "--json"]).env(name, value));
    let (code, found) = with("ASHLAR_OPTIONS", "percpu=lock");
    let (state, said) = of(&found, "mode");
    assert_eq!((code, state.as_str()), (Some(1), "problem"));
    assert!(said.contains("lock: ") && said.contains("the option percpu=lock"), "{said}");
    let (_, found) = with("GLIBC_TUNABLES", "glibc.malloc.check=0:glibc.pthread.rseq=0");
    assert_eq!(of(&found, "rseq").0, if of(&doctor(&[]).1, "rseq").0 == "ok" { "note" } else { "problem" });
    let (_, found) = with("LD_PRELOAD", "libjemalloc.so.2");
    assert!(of(&found, "preload").1.contains("libjemalloc.so.2"));
}

#[test]
fn limits_are_named() {
    let mut limited = command("sh");
    limited.args(["-c", "ulimit -v 1000000; ulimit -f 1; exec \"$0\" doctor --json", ASHLAR]);
    let (_, found) = findings(&mut limited);
    let said = of(&found, "limit").1;
    assert!(said.contains("ulimit -v is 976 MiB") && said.contains("zone=732M"), "{said}");
    assert!(!found.iter().any(|finding| finding["name"] == "limits"), "{found:?}");
}

#[test]
fn programs_that_a_preloaded_library_does_not_reach_are_named() {
    let main = "int main(void) { return 0; }\n";
    if let Some(program) = compiled("plain", main, &[]) {
        let (_, found) = doctor(&["--", program.to_str().unwrap()]);
        assert_eq!(of(&found, "program").0, "ok");
        assert!(!found.iter().any(|finding| finding["name"] == "own malloc"), "{found:?}");
    }
    if let Some(program) = compiled("static", main, &["-static"]) {
        let (code, found) = doctor(&["--", program.to_str().unwrap()]);
        assert_eq!((code, of(&found, "program").0.as_str()), (Some(1), "problem"));
        assert!(of(&found, "program").1.contains("libashlar_malloc.a"));
    }
    let own =
        format!("void *malloc(unsigned long n) {{ return (void *)n; }}\nvoid *je_malloc(void) {{ return 0; }}\n{main}");
    if let Some(program) = compiled("own", &own, &["-fno-builtin"]) {
        let (code, found) = doctor(&["--", program.to_str().unwrap()]);
        let (state, said) = of(&found, "own malloc");
        assert_eq!((code, state.as_str()), (Some(1), "problem"));
        assert!(said.contains("it defines malloc itself (jemalloc)"), "{said}");
    }
    let beside = format!("void *mi_malloc(void) {{ return 0; }}\n{main}");
    if let Some(program) = compiled("beside", &beside, &[]) {
        let (_, found) = doctor(&["--", program.to_str().unwrap()]);
        let (state, said) = of(&found, "own malloc");
        assert!(state == "note" && said.contains("mimalloc"), "{said}");
    }
    let script = scratch("script");
    fs::write(&script, "#!/usr/bin/env sh\n").expect("a file");
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("rights");
    let shown = text(&ashlar(&["doctor", "--", script.to_str().unwrap()]).stdout);
    assert!(shown.lines().next().unwrap().contains("script, a script of /"), "{shown}");
}

#[test]
fn a_process_is_asked_for_its_mode_and_another_is_told_apart() {
    let mut sleep = Command::new("sh");
    sleep.args(["-c", "echo ready; read line"]).env("LD_PRELOAD", library());
    let foreign = Running::of(Command::new("sleep").arg("100").stdout(Stdio::null()));
    let (code, found) = doctor(&[&foreign.pid]);
    assert_eq!((code, of(&found, "ashlar").0.as_str()), (Some(1), "problem"));
    assert!(of(&found, "ashlar").1.contains("not on ashlar"));
    let Some(child) = try_started(sleep) else { return skipped("no sh") };
    let (_, found) = doctor(&[&child.pid]);
    let (state, said) = of(&found, "ashlar");
    assert!(state == "ok" && said.contains("libashlar_malloc.so"), "{said}");
    of(&found, "mode");
}

#[test]
fn bad_input_is_named() {
    let cases: &[(&[&str], &str)] = &[
        (&["0"], "PID"),
        (&["999999999"], "no such process"),
        (&["1", "--", "sh"], "PROGRAM: cannot be given together with PID"),
        (&["--nonsense"], "--nonsense"),
    ];
    refused(&["doctor"], cases);
    let out = ashlar(&["doctor", "--", "no-such-program-here"]);
    assert_eq!(out.status.code(), Some(127));
    assert!(text(&out.stderr).contains("PROGRAM: no-such-program-here: not found"));
}
