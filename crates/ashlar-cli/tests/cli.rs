//! The tool from outside: what it refuses and how, and what a small run writes. No test looks at a time.

use std::path::PathBuf;
use std::process::{Command, Output};

fn ashlar(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ashlar")).args(args).output().expect("the tool runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A path for a file of this test process alone.
fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("ashlar-cli-{}-{name}", std::process::id()))
}

#[test]
fn bad_input_is_named_and_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["--sizes", "0"], "--sizes"),
        (&["--sizes", "eight"], "`eight` is not a size"),
        (&["--sizes", "99999999"], "--sizes"),
        (&["--sizes", "64..8"], "LOW <= HIGH"),
        (&["--rounds", "0"], "--rounds"),
        (&["--objects", "0"], "--objects"),
        (&["--objects", "many"], "--objects"),
        (&["--cpus", "0"], "--cpus"),
        (&["--cpus", "5000"], "--cpus"),
        (&["--style", "fancy"], "--style"),
        (&["--by", "max"], "--by"),
        (&["G"], "expected one of A, B, C, D, E, F"),
        (&["--systems", "nosuch"], "--systems: unknown system `nosuch`"),
        (&["--systems", ""], "--systems: unknown system ``"),
        (&["--json", "/no/such/directory/out.json"], "--json: cannot write"),
        (&["--csv", "/no/such/directory/out.csv"], "--csv: cannot write"),
        (&["--from", "/no/such/file.json"], "--from: cannot read"),
        (&["--from", "x.json", "--rounds", "3"], "--from"),
        (&["--nonsense"], "--nonsense"),
    ];
    for (args, expected) in cases {
        let args: Vec<&str> = ["bench"].iter().chain(*args).copied().collect();
        let out = ashlar(&args);
        let message = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: no `{expected}` in: {message}");
        assert!(out.stdout.is_empty(), "{args:?} printed a result");
    }
}

#[test]
fn an_unknown_system_is_answered_with_the_known_ones() {
    let message = text(&ashlar(&["bench", "--systems", "glibc,gnulibc"]).stderr);
    for id in ["ashlar", "ashlar-cache", "glibc", "mimalloc", "limit-called"] {
        assert!(message.contains(id), "no {id} in: {message}");
    }
}

#[cfg(not(feature = "peer-mimalloc"))]
#[test]
fn a_system_left_out_of_the_build_is_told_with_its_feature() {
    let out = ashlar(&["bench", "--systems", "mimalloc"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("`peer-mimalloc`"), "{}", text(&out.stderr));
}

const TINY: [&str; 9] = ["bench", "--objects", "100", "--rounds", "1", "--systems", "glibc,limit", "--sizes", "8,64"];

#[test]
fn a_tiny_run_writes_the_json_schema_and_the_csv() {
    let (json, csv) = (scratch("run.json"), scratch("run.csv"));
    let mut args = TINY.to_vec();
    args.extend(["--json", json.to_str().unwrap(), "--csv", csv.to_str().unwrap()]);
    let out = ashlar(&args);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));

    let run: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let host = &run["host"];
    for key in ["cpu_model", "cpus", "kernel", "glibc", "thp", "ashlar_mode", "rustc", "build", "peers"] {
        assert!(!host[key].is_null(), "host has no {key}");
    }
    assert!(host["peers"]["glibc"]["version"].is_string() && host["peers"]["glibc"]["build"].is_string());

    let records = run["records"].as_array().unwrap();
    for test in ["A", "B", "C", "D", "D-free", "E", "F", "F-alloc"] {
        for system in ["glibc", "limit"] {
            for size in [8, 64] {
                let found: Vec<_> = records
                    .iter()
                    .filter(|r| r["test"] == test && r["system"] == system && r["size"] == size)
                    .collect();
                assert_eq!(found.len(), 1, "{test} {system} {size}");
                let record = found[0];
                assert!(record["unit"].is_string() && record["oversubscribed"].is_boolean());
                let runs = record["runs"].as_u64().unwrap();
                assert!(runs >= 1);
                assert_eq!(record["samples"].as_array().unwrap().len() as u64, runs);
                assert!(record["cpus"].as_u64().unwrap() >= 1);
                assert!(record["min"].as_f64().unwrap() <= record["median"].as_f64().unwrap());
            }
        }
    }
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 1 + records.len());

    // The table again, and the targets, from the file.
    let from = ["bench", "--from", json.to_str().unwrap()];
    let again = ashlar(&from);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert_eq!(text(&again.stdout), text(&out.stdout));
    let judged = ashlar(&[from[0], from[1], from[2], "--check-targets"]);
    assert_eq!(judged.status.code(), Some(1), "ashlar was not measured, so its targets are missed");
    assert!(text(&judged.stdout).contains("MISS"));
    for path in [json, csv] {
        let _ = std::fs::remove_file(path);
    }
}

#[test]
fn the_kernel_style_prints_the_lines_of_the_module() {
    let mut args = TINY.to_vec();
    args.extend(["--style", "kernel", "--cpus", "2"]);
    let out = text(&ashlar(&args).stdout);
    for start in ["100 times kmalloc(8) -> ", "100 times kmalloc(64)/kfree -> ", "Kmalloc N*alloc N*free(8): 0="] {
        assert!(out.lines().any(|line| line.starts_with(start)), "no line `{start}` in:\n{out}");
    }
    assert!(out.contains(" Average="));
}

#[test]
fn only_the_tests_asked_for_are_reported() {
    let mut args = TINY.to_vec();
    args.extend(["b", "C"]);
    let out = text(&ashlar(&args).stdout);
    assert!(
        out.contains("Test B:") && out.contains("Test C:") && !out.contains("Test A:") && !out.contains("Test D"),
        "{out}"
    );
}

#[test]
fn more_threads_than_cpus_are_marked() {
    let cpus = std::thread::available_parallelism().unwrap().get() + 1;
    let mut args = TINY.to_vec();
    let cpus = cpus.to_string();
    args.extend(["D", "F", "--cpus", &cpus]);
    assert!(text(&ashlar(&args).stdout).contains("OVERSUBSCRIBED"));
}

#[test]
fn a_file_that_is_no_run_is_refused_by_name() {
    let path = scratch("bad.json");
    std::fs::write(&path, "{\"records\": 3}").unwrap();
    let out = ashlar(&["bench", "--from", path.to_str().unwrap()]);
    let _ = std::fs::remove_file(&path);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--from"), "{}", text(&out.stderr));
}

#[test]
fn a_system_that_cannot_run_is_told_by_name_and_the_run_fails() {
    // 10^7 objects of 1 MiB on each of 64 CPUs: more than the address space holds.
    let args = ["bench", "C", "--systems", "limit", "--sizes", "1048576", "--objects", "10000000", "--cpus", "64"];
    let out = ashlar(&args);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("limit: cannot map"), "{}", text(&out.stderr));
}
